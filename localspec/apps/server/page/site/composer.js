// Where one writes: the message, files and pictures beside it, a text that is to be edited.
import { button, el, find, replace } from "./dom.js";
import { preview } from "./message_view.js";

const MAX_TEXT = 8 << 20; // bytes of a text file
const MAX_PICTURE = 20 << 20; // bytes of a picture

export class Composer {
  files = [];

  /** `chat` takes what is sent, and says what the model can see. */
  constructor(form, chat) {
    this.form = form;
    this.chat = chat;
    this.area = find("#message");
    this.edit = find("#edit");
    this.editing = find("#editing");
    this.list = find("#attached");
    this.picker = find("#file");
    this.send = find("#send");
    this.stop = find("#stop");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.area.addEventListener("keydown", (event) => this.#key(event));
    if (!CSS.supports("field-sizing", "content")) {
      this.area.addEventListener("input", () => fit(this.area));
    }
    form.addEventListener("input", () => chat.writing(this.unsent));
    this.area.addEventListener("paste", (event) => this.#paste(event));
    this.picker.addEventListener("change", () => this.#picked());
    find("#attach").addEventListener("click", () => this.picker.click());
    find("#edit-toggle").addEventListener("click", () => this.toggleEdit());
    this.stop.addEventListener("click", () => chat.stop());
    this.#drop(find("#chat"));
    // Until now nobody would have taken what is written.
    this.area.disabled = this.send.disabled = false;
  }

  get busy() {
    return !this.stop.hidden;
  }

  set busy(value) {
    this.stop.hidden = !value;
    this.send.hidden = value;
  }

  /** The message as it would be sent. */
  get unsent() {
    const edit = this.editing.hidden ? "" : this.edit.value;
    return { text: this.area.value, files: this.files, edit };
  }

  submit() {
    const { text, files, edit } = this.unsent;
    if (this.busy || !(text.trim() || files.length || edit)) return;
    this.chat.submit({ text, files, edit });
    this.clear();
  }

  clear() {
    this.area.value = this.edit.value = "";
    this.files = [];
    this.toggleEdit(false);
    this.#show();
  }

  toggleEdit(on = this.editing.hidden) {
    this.editing.hidden = !on;
    find("#edit-toggle").setAttribute("aria-expanded", String(on));
    if (on) this.edit.focus();
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.submit();
    } else if (event.key === "ArrowUp" && !this.area.value) {
      event.preventDefault();
      this.chat.editLast();
    }
  }

  #paste(event) {
    const files = [...event.clipboardData.files];
    if (!files.length) return;
    event.preventDefault();
    this.add(files);
  }

  #picked() {
    this.add([...this.picker.files]);
    this.picker.value = "";
  }

  #drop(target) {
    const over = (on) => (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      target.classList.toggle("dropping", on);
    };
    target.addEventListener("dragover", over(true));
    target.addEventListener("dragleave", over(false));
    target.addEventListener("drop", (event) => {
      over(false)(event);
      this.add([...event.dataTransfer.files]);
    });
  }

  async add(files) {
    for (const file of files) {
      try {
        this.files.push(await this.#read(file));
      } catch (error) {
        this.chat.tell(`${file.name || "the file"}: ${error.message}`);
      }
    }
    this.#show();
    this.area.focus();
    this.chat.writing(this.unsent);
  }

  async #read(file) {
    if (file.type.startsWith("image/") && file.type !== "image/svg+xml") return this.#picture(file);
    const size = `${(file.size / (1 << 20)).toFixed(1)} MiB`;
    if (file.size > MAX_TEXT)
      throw new Error(`${size} are more than the 8 MiB that a text may have`);
    try {
      const data = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      if (!data.includes("\0")) return { name: file.name, kind: "text", data };
    } catch {
      // No UTF-8: told below.
    }
    throw new Error("it is no text in UTF-8; models read texts and pictures");
  }

  async #picture(file) {
    if (!this.chat.sees()) throw new Error("this model sees no pictures: choose another one");
    if (file.size > MAX_PICTURE) throw new Error("a picture may have 20 MiB");
    const data = await new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result);
      reader.onerror = () => reject(new Error("it cannot be read"));
      reader.readAsDataURL(file);
    });
    return { name: file.name || "pasted picture", kind: "picture", data };
  }

  #show() {
    const remove = (at) => () => {
      this.files.splice(at, 1);
      this.#show();
    };
    replace(
      this.list,
      ...this.files.map((file, at) =>
        el(
          "li",
          {},
          preview(file),
          button("×", remove(at), { class: "quiet", "aria-label": `Remove ${file.name}` }),
        ),
      ),
    );
  }
}

/** Make a field as high as its text, up to what its style allows. */
function fit(area) {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight + 2}px`;
}
