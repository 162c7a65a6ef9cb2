/** A JSON object whose fields are unchecked. */
export type Unchecked = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Unchecked {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The `metadata` of a Kubernetes object, if `object` is one. */
export function metadataOf(object: unknown): Unchecked | undefined {
  return isObject(object) && isObject(object.metadata) ? object.metadata : undefined;
}

/** Returns a non-empty string as it is, and undefined for anything else. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
