// What this browser keeps: conversations and reports in its database, preferences beside it.
const NAME = "localspec";
const VERSION = 2; // to be raised with a change of STORES
const STORES = ["conversations", "reports", "running"];

/** Open the database; without one, as in some private windows, things last until the page goes. */
export async function openStore() {
  try {
    return new Store(await opened());
  } catch {
    return new Passing();
  }
}

function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, VERSION);
    request.onupgradeneeded = () => {
      const { result: database } = request;
      for (const store of STORES)
        if (!database.objectStoreNames.contains(store))
          database.createObjectStore(store, { keyPath: "id" });
    };
    request.onsuccess = () => {
      request.result.onversionchange = () => request.result.close(); // a tab with a newer page
      resolve(request.result);
    };
    request.onblocked = () => reject(new Error("a tab with an older page holds the database"));
    request.onerror = () => reject(request.error);
  });
}

class Store {
  lasts = true;

  constructor(database) {
    this.database = database;
  }

  #run(store, mode, work) {
    return new Promise((resolve, reject) => {
      const transaction = this.database.transaction(store, mode);
      const request = work(transaction.objectStore(store));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
  }

  all(store) {
    return this.#run(store, "readonly", (entries) => entries.getAll());
  }

  put(store, entry) {
    return this.#run(store, "readwrite", (entries) => entries.put(entry));
  }

  remove(store, id) {
    return this.#run(store, "readwrite", (entries) => entries.delete(id));
  }

  clear(store) {
    return this.#run(store, "readwrite", (entries) => entries.clear());
  }
}

class Passing {
  lasts = false;
  #entries = new Map(STORES.map((store) => [store, new Map()]));

  async all(store) {
    return [...this.#entries.get(store).values()];
  }

  async put(store, entry) {
    this.#entries.get(store).set(entry.id, entry);
  }

  async remove(store, id) {
    this.#entries.get(store).delete(id);
  }

  async clear(store) {
    this.#entries.get(store).clear();
  }
}

/** A preference, as the theme; `fallback` where none was kept. */
export function preference(name, fallback) {
  try {
    return JSON.parse(localStorage.getItem(`localspec.${name}`)) ?? fallback;
  } catch {
    return fallback;
  }
}

export function prefer(name, value) {
  try {
    localStorage.setItem(`localspec.${name}`, JSON.stringify(value));
  } catch {
    // A full or forbidden storage: the preference lasts until the page goes.
  }
}
