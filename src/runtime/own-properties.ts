/**
 * Copies an options object into one without a prototype, so that no option is read from a polluted `Object.prototype`. Every entry point
 * does so before it reads options. Values are copied as they are: a resolver, a KubeConfig or an Agent stays the object it was. What is no
 * options object is returned unchanged, for the check that refuses it.
 */
export function ownProperties<T>(options: T): T {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) return options;
  return Object.assign(Object.create(null), options);
}
