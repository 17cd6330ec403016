// The messages of a conversation as one reads them: the user's, a tool's, the model's.
import { AnswerView } from "./answer_view.js";
import { copyButton } from "./copy.js";
import { button, el, replace } from "./dom.js";
import { GrowingText } from "./long_text.js";
import { siblings } from "./tree.js";

const PICTURE = /^data:image\/(?:png|jpeg|webp|gif|bmp);base64,[A-Za-z0-9+/=]+$/;

/** `chat` acts on messages: edit, retry, branch, choose, results. */
export function messageView(node, conversation, chat) {
  const name = {
    user: "You",
    assistant: node.model || "Model",
    tool: `Result of ${node.name || "a tool"}`,
  };
  const body = el("div", { class: "body" });
  const actions = el("div", { class: "actions" });
  const element = el(
    "article",
    { class: `message ${node.role}`, "aria-label": name[node.role], data: { id: node.id } },
    el("header", {}, el("h2", {}, name[node.role]), turns(node, conversation, chat)),
    body,
    actions,
  );
  const answer = node.role === "assistant" ? new AnswerView(node, chat) : null;
  if (answer) body.append(answer.element);
  else body.append(...written(node));
  actions.append(...buttons(node, chat, body));
  return { element, answer };
}

function written(node) {
  const text = el("div", { class: "plain", dir: "auto" });
  new GrowingText(text).add(node.text);
  return [...attachments(node), text, node.edit ? edited(node.edit) : null].filter(Boolean);
}

function edited(source) {
  const text = el("pre", { class: "plain" });
  new GrowingText(text).add(source);
  return el(
    "details",
    {},
    el("summary", {}, `Text to edit, ${source.length.toLocaleString("en")} characters`),
    text,
  );
}

function attachments({ files = [] }) {
  if (!Array.isArray(files) || !files.length) return [];
  return [el("ul", { class: "files" }, ...files.map((file) => el("li", {}, preview(file))))];
}

/** Show a file by its name, a picture by itself; only data of pictures becomes a source. */
export function preview({ name = "", kind, data = "" }) {
  if (kind === "picture" && PICTURE.test(data))
    return el("img", { src: data, alt: name || "picture" });
  return el("span", { class: "file" }, `${name} (${data.length.toLocaleString("en")} characters)`);
}

/** The way to the other messages at the same place. */
function turns(node, conversation, chat) {
  const all = siblings(conversation, node.id);
  if (all.length < 2) return null;
  const at = all.indexOf(node.id);
  const step = (sign, label, to) =>
    button(sign, () => chat.choose(to), { class: "quiet", "aria-label": label, disabled: !to });
  return el(
    "span",
    { class: "turns" },
    step("‹", "The version before", all[at - 1]),
    el("span", {}, `${at + 1} of ${all.length}`),
    step("›", "The next version", all[at + 1]),
  );
}

function buttons(node, chat, body) {
  const made = [copyButton(() => node.text, "Copy message")];
  const quiet = { class: "quiet" };
  if (node.role === "user") made.push(button("Edit", () => edit(node, chat, body), quiet));
  if (node.role === "assistant") made.push(button("Retry", () => chat.retry(node), quiet));
  made.push(
    button("Branch", () => chat.branch(node), {
      ...quiet,
      title: "A new conversation with the messages up to here",
    }),
  );
  return made;
}

function edit(node, chat, body) {
  const area = el("textarea", { "aria-label": "Edit your message", rows: 4, dir: "auto" });
  area.value = node.text;
  const close = () => replace(body, ...written(node));
  const send = () => area.value.trim() && chat.resend(node, area.value);
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  });
  replace(
    body,
    ...attachments(node),
    area,
    el("div", { class: "row" }, button("Send", send, { class: "main" }), button("Cancel", close)),
  );
  area.focus();
}
