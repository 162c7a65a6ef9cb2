import { isDeepStrictEqual } from 'node:util';

/** Identifies one piece of extra metadata of endpoints, and gives its type. Two keys with equal names are different keys. */
export interface AttributeKey<T> {
  /** The name that messages show; the key is identified by the object, not by its name. */
  readonly name: string;
  /** Carries the type for the type checker; never set. */
  readonly _type?: T;
}

/** Creates a key for metadata that a resolver attaches to endpoints and a stage or transport reads. */
export function attributeKey<T>(name: string): AttributeKey<T> {
  return Object.freeze({ name });
}

/** Extra metadata of an endpoint, read by key. */
export class Attributes {
  /** No metadata; shared by all endpoints without any. */
  static readonly empty: Attributes = new Attributes(new Map());
  readonly #values: ReadonlyMap<AttributeKey<unknown>, unknown>;

  private constructor(values: ReadonlyMap<AttributeKey<unknown>, unknown>) {
    this.#values = values;
  }

  /** Returns the value stored under `key`; undefined if there is none. */
  get<T>(key: AttributeKey<T>): T | undefined {
    return this.#values.get(key) as T | undefined;
  }

  /** Whether another object holds equal values under the same keys. Values that are objects or lists are compared by their contents. */
  equals(other: Attributes): boolean {
    if (this === other) return true;
    if (this.#values.size !== other.#values.size) return false;
    for (const [key, value] of this.#values) {
      if (!other.#values.has(key) || !isDeepStrictEqual(value, other.#values.get(key))) return false;
    }
    return true;
  }

  /** Returns a copy with one more value. */
  with<T>(key: AttributeKey<T>, value: T): Attributes {
    return new Attributes(new Map(this.#values).set(key, value));
  }
}
