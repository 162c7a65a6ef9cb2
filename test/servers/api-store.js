export const resourceTypes = Object.freeze({
  endpointslices: {
    name: 'endpointslices',
    kind: 'EndpointSlice',
    apiVersion: 'discovery.k8s.io/v1',
    group: 'discovery.k8s.io',
    root: '/apis/discovery.k8s.io/v1',
  },
  services: { name: 'services', kind: 'Service', apiVersion: 'v1', group: '', root: '/api/v1' },
});

/** The label that links a slice to its Service. */
export const serviceNameLabel = 'kubernetes.io/service-name';

/** One version of one object. Its text is rendered once and shared by all lists and watches. */
export class StoredObject {
  resource;
  namespace;
  name;
  revision;
  object;
  #itemText;
  #eventText;

  constructor(resource, object, revision) {
    this.resource = resource;
    this.namespace = object.metadata.namespace;
    this.name = object.metadata.name;
    this.revision = revision;
    this.object = object;
  }

  get labels() {
    return this.object.metadata.labels;
  }

  /** The object's text as an item of a list, without kind and apiVersion. */
  get itemText() {
    if (this.#itemText === undefined) this.#itemText = JSON.stringify(this.object);
    return this.#itemText;
  }

  /** The object's text in a watch event, with kind and apiVersion. */
  get eventText() {
    if (this.#eventText === undefined) {
      const { kind, apiVersion } = resourceTypes[this.resource];
      this.#eventText = JSON.stringify({ kind, apiVersion, ...this.object });
    }
    return this.#eventText;
  }

  /** Returns the object with a later version and nothing else changed, which is what a DELETED event carries. */
  at(revision) {
    const metadata = { ...this.object.metadata, resourceVersion: String(revision) };
    return new StoredObject(this.resource, { ...this.object, metadata }, revision);
  }
}

/**
 * The versioned store behind the API server: one revision counter for all objects, and a window of history. A revision below `compacted`
 * can no longer be watched from or read.
 */
export class ObjectStore {
  #historyLimit;
  #listeners = new Set();
  #objects = new Map();
  #history = [];
  #revision = 1_000;
  #compacted = 1_000;
  #uids = 0;

  /** @param historyLimit How many writes the store remembers. */
  constructor(historyLimit) {
    this.#historyLimit = historyLimit;
  }

  /** The version of the last write to any object. */
  get revision() {
    return this.#revision;
  }

  /** The oldest version from which the store still knows all later writes. */
  get compacted() {
    return this.#compacted;
  }

  get(resource, namespace, name) {
    return this.#objects.get(`${resource}/${namespace}/${name}`);
  }

  /** All objects of a collection, by namespace and name. An empty namespace means all namespaces. */
  list(resource, namespace) {
    return select(this.#objects, resource, namespace);
  }

  /** Lists a collection like `list`, at an earlier version. Undefined if the store does not know that version. */
  listAt(resource, namespace, revision) {
    if (revision < this.#compacted || revision > this.#revision) return undefined;
    const objects = new Map(this.#objects);
    for (let index = this.#history.length - 1; index >= 0; index--) {
      const event = this.#history[index];
      if (event.revision <= revision) break;
      const { resource: of, namespace: space, name } = event.after ?? event.before;
      const key = `${of}/${space}/${name}`;
      if (event.before) objects.set(key, event.before);
      else objects.delete(key);
    }
    return select(objects, resource, namespace);
  }

  /** Creates or replaces an object; repeated identical writes count as writes. */
  put(resource, object) {
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
  delete(resource, namespace, name) {
    const before = this.get(resource, namespace, name);
    if (before === undefined) return false;
    this.#objects.delete(`${resource}/${namespace}/${name}`);
    this.#record({ revision: this.#next(), resource, before, after: undefined });
    return true;
  }

  /** Increments the revision, as writes to objects outside this store do (leases, events). */
  touch() {
    this.#next();
  }

  /** Forgets the history up to now: every earlier version is "too old" from now on. */
  compact() {
    this.#history = [];
    this.#compacted = this.#revision;
  }

  /** The changes to a collection after `revision`, oldest first. Undefined if the store no longer knows them all. */
  eventsAfter(resource, revision) {
    if (revision < this.#compacted) return undefined;
    return this.#history.filter((event) => event.revision > revision && event.resource === resource);
  }

  backup() {
    return { revision: this.#revision, objects: new Map(this.#objects) };
  }

  /** Goes back to an earlier moment: the revision goes back too, and no listener is called. */
  restore(backup) {
    this.#objects = new Map(backup.objects);
    this.#revision = backup.revision;
    this.compact();
  }

  /** Calls `listener` for every write until the returned function is called. */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #next() {
    this.#revision += 1;
    return this.#revision;
  }

  #uid() {
    this.#uids += 1;
    return `00000000-0000-4000-8000-${this.#uids.toString(16).padStart(12, '0')}`;
  }

  #record(event) {
    this.#history.push(event);
    if (this.#history.length > this.#historyLimit) {
      this.#compacted = this.#history.shift().revision;
    }
    for (const listener of this.#listeners) listener(event);
  }
}

function select(objects, resource, namespace) {
  const found = [];
  const prefix = namespace === '' ? `${resource}/` : `${resource}/${namespace}/`;
  for (const [key, stored] of objects) if (key.startsWith(prefix)) found.push({ key, stored });
  return found.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ stored }) => stored);
}
