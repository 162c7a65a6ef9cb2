import { type KubernetesObject, type ResourceName, resourceTypes } from './api-server-objects.js';

/** One version of one object. Its text is rendered once and shared by all lists and watches. */
export class StoredObject {
  readonly resource: ResourceName;
  readonly namespace: string;
  readonly name: string;
  readonly revision: number;
  readonly object: KubernetesObject;
  #itemText: string | undefined;
  #eventText: string | undefined;

  constructor(resource: ResourceName, object: KubernetesObject, revision: number) {
    this.resource = resource;
    this.namespace = object.metadata.namespace as string;
    this.name = object.metadata.name;
    this.revision = revision;
    this.object = object;
  }

  get labels(): Readonly<Record<string, string>> | undefined {
    return this.object.metadata.labels;
  }

  /** The object's text as an item of a list, without kind and apiVersion. */
  get itemText(): string {
    if (this.#itemText === undefined) this.#itemText = JSON.stringify(this.object);
    return this.#itemText;
  }

  /** The object's text in a watch event, with kind and apiVersion. */
  get eventText(): string {
    if (this.#eventText === undefined) {
      const { kind, apiVersion } = resourceTypes[this.resource];
      this.#eventText = JSON.stringify({ kind, apiVersion, ...this.object });
    }
    return this.#eventText;
  }

  /** Returns the object with a later version and nothing else changed, which is what a DELETED event carries. */
  at(revision: number): StoredObject {
    const metadata = { ...this.object.metadata, resourceVersion: String(revision) };
    return new StoredObject(this.resource, { ...this.object, metadata }, revision);
  }
}

/** One write to the test API server's store. */
export interface StoreEvent {
  readonly revision: number;
  readonly resource: ResourceName;
  /** The object before the write; undefined if the write created it. */
  readonly before: StoredObject | undefined;
  /** The object after the write; undefined if the write deleted it. */
  readonly after: StoredObject | undefined;
}

/** The contents of the test API server's store at one moment. */
export interface StoreBackup {
  /** The version that the store had. */
  readonly revision: number;
  /** All objects, by kind, namespace and name. */
  readonly objects: ReadonlyMap<string, StoredObject>;
}

/**
 * The versioned store behind the API server: one revision counter for all objects, and a window of history. A revision below `compacted`
 * can no longer be watched from or read.
 */
export class ObjectStore {
  readonly #historyLimit: number;
  readonly #listeners = new Set<(event: StoreEvent) => void>();
  #objects = new Map<string, StoredObject>();
  #history: StoreEvent[] = [];
  #revision = 1_000;
  #compacted = 1_000;
  #uids = 0;

  /** @param historyLimit How many writes the store remembers. */
  constructor(historyLimit: number) {
    this.#historyLimit = historyLimit;
  }

  /** The version of the last write to any object. */
  get revision(): number {
    return this.#revision;
  }

  /** The oldest version from which the store still knows all later writes. */
  get compacted(): number {
    return this.#compacted;
  }

  get(resource: ResourceName, namespace: string, name: string): StoredObject | undefined {
    return this.#objects.get(`${resource}/${namespace}/${name}`);
  }

  /** All objects of a collection, by namespace and name. An empty namespace means all namespaces. */
  list(resource: ResourceName, namespace: string): StoredObject[] {
    return select(this.#objects, resource, namespace);
  }

  /** Lists a collection like `list`, at an earlier version. Undefined if the store does not know that version. */
  listAt(resource: ResourceName, namespace: string, revision: number): StoredObject[] | undefined {
    if (revision < this.#compacted || revision > this.#revision) return undefined;
    const objects = new Map(this.#objects);
    for (let index = this.#history.length - 1; index >= 0; index--) {
      const event = this.#history[index] as StoreEvent;
      if (event.revision <= revision) break;
      const { resource: of, namespace: space, name } = (event.after ?? event.before) as StoredObject;
      const key = `${of}/${space}/${name}`;
      if (event.before) objects.set(key, event.before);
      else objects.delete(key);
    }
    return select(objects, resource, namespace);
  }

  /** Creates or replaces an object; repeated identical writes count as writes. */
  put(resource: ResourceName, object: KubernetesObject): StoredObject {
    const namespace = object.metadata.namespace ?? 'default';
    const key = `${resource}/${namespace}/${object.metadata.name}`;
    const before = this.#objects.get(key);
    const revision = this.#next();
    const metadata = {
      ...object.metadata,
      namespace,
      uid: object.metadata.uid ?? before?.object.metadata.uid ?? this.#uid(),
      resourceVersion: String(revision),
    };
    // The object is copied, so that a caller that keeps changing its own object does not rewrite history.
    const after = new StoredObject(resource, structuredClone({ ...object, metadata }), revision);
    this.#objects.set(key, after);
    this.#record({ revision, resource, before, after });
    return after;
  }

  /** Deletes an object. Returns whether the object existed. */
  delete(resource: ResourceName, namespace: string, name: string): boolean {
    const before = this.get(resource, namespace, name);
    if (before === undefined) return false;
    this.#objects.delete(`${resource}/${namespace}/${name}`);
    this.#record({ revision: this.#next(), resource, before, after: undefined });
    return true;
  }

  /** Increments the revision, as writes to objects outside this store do (leases, events). */
  touch(): void {
    this.#next();
  }

  /** Forgets the history up to now: every earlier version is "too old" from now on. */
  compact(): void {
    this.#history = [];
    this.#compacted = this.#revision;
  }

  /** The changes to a collection after `revision`, oldest first. Undefined if the store no longer knows them all. */
  eventsAfter(resource: ResourceName, revision: number): StoreEvent[] | undefined {
    if (revision < this.#compacted) return undefined;
    return this.#history.filter((event) => event.revision > revision && event.resource === resource);
  }

  backup(): StoreBackup {
    return { revision: this.#revision, objects: new Map(this.#objects) };
  }

  /** Goes back to an earlier moment: the revision goes back too, and no listener is called. */
  restore(backup: StoreBackup): void {
    this.#objects = new Map(backup.objects);
    this.#revision = backup.revision;
    this.compact();
  }

  /** Calls `listener` for every write until the returned function is called. */
  subscribe(listener: (event: StoreEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #next(): number {
    this.#revision += 1;
    return this.#revision;
  }

  #uid(): string {
    this.#uids += 1;
    return `00000000-0000-4000-8000-${this.#uids.toString(16).padStart(12, '0')}`;
  }

  #record(event: StoreEvent): void {
    this.#history.push(event);
    if (this.#history.length > this.#historyLimit) {
      this.#compacted = (this.#history.shift() as StoreEvent).revision;
    }
    for (const listener of this.#listeners) listener(event);
  }
}

function select(objects: ReadonlyMap<string, StoredObject>, resource: ResourceName, namespace: string): StoredObject[] {
  const found: { key: string; stored: StoredObject }[] = [];
  const prefix = namespace === '' ? `${resource}/` : `${resource}/${namespace}/`;
  for (const [key, stored] of objects) if (key.startsWith(prefix)) found.push({ key, stored });
  return found.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ stored }) => stored);
}
