/** A typed name for extra metadata of an endpoint. Two keys with the same name are different keys. */
export interface AttributeKey<T> {
  /** The name that messages show; it does not identify the key. */
  readonly name: string;
  /** Only for the type checker; never set. */
  readonly _type?: T;
}

/** Makes a key for metadata a resolver attaches and a stage or transport reads. */
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

  /** The value under this very key; undefined if a resolver attached none. */
  get<T>(key: AttributeKey<T>): T | undefined {
    return this.#values.get(key) as T | undefined;
  }

  /** A copy with one more value. */
  with<T>(key: AttributeKey<T>, value: T): Attributes {
    return new Attributes(new Map(this.#values).set(key, value));
  }
}
