// Requests to the server that this page came from, with the key of this session.
import { EventReader } from "./sse.js";

const KEY = "localspec.key";
const base = new URL(".", document.baseURI);
let askForKey = async () => null; // which the page sets: it asks the user

class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

export function onKeyWanted(ask) {
  askForKey = ask;
}

/** Ask the server; answers that are no success become an ApiError with the server's words. */
export async function ask(path, { method = "GET", body, signal } = {}) {
  let refused = "";
  for (;;) {
    const response = await sent(path, { method, body, signal });
    if (response.status !== 401) {
      if (response.ok) return response;
      throw new ApiError(await message(response), response.status);
    }
    const key = await askForKey(refused);
    if (key === null) throw new ApiError("this server wants an API key", 401);
    sessionStorage.setItem(KEY, key);
    refused = "The server refused this key.";
  }
}

async function sent(path, { method, body, signal }) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  try {
    const json = body === undefined ? undefined : JSON.stringify(body);
    return await fetch(new URL(path, base), {
      method,
      headers,
      body: json,
      signal,
      credentials: "omit",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the server does not answer: start it, or wait until it is back");
  }
}

async function message(response) {
  try {
    const { error, detail } = await response.json();
    return error?.message ?? error ?? detail ?? response.statusText;
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}

export async function json(path, options) {
  return (await ask(path, options)).json();
}

/** Yield the texts of a response as they come. */
async function* texts(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the connection to the server was lost");
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Yield the events of a stream of server-sent events, several at a time as they came. */
export async function* events(path, options) {
  const reader = new EventReader();
  for await (const text of texts(await ask(path, options))) {
    const batch = reader.push(text);
    const ended = batch.indexOf("[DONE]");
    yield (ended < 0 ? batch : batch.slice(0, ended)).map((data) => JSON.parse(data));
    if (ended >= 0) return;
  }
  throw new ApiError("the connection to the server was lost");
}
