// Server-sent events, read from text as it comes.

/** Takes pieces of a stream, cut anywhere, and returns the data of the events that are whole. */
export class EventReader {
  #rest = "";
  #data = [];

  push(text) {
    const events = [];
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.#data.length) events.push(this.#data.join("\n"));
        this.#data = [];
      } else if (line.startsWith("data:")) {
        this.#data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
    return events;
  }
}
