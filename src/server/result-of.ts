import { ignoreRejection } from '../runtime/ignore-rejection.js';

/**
 * Returns the result of an application's function; undefined if there is none, or if it throws. A promise, which none of them should return,
 * may reject unheard.
 */
export function resultOf<T, A extends readonly unknown[]>(
  callback: ((...args: A) => T) | undefined,
  ...args: A
): T | undefined {
  try {
    const result = callback?.(...args);
    ignoreRejection(result);
    return result;
  } catch {
    return undefined;
  }
}
