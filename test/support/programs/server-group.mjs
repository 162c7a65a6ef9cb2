/** What groups of real servers share: they start together or not at all, and are found by index. */

/**
 * Starts a group. If that fails, closes it and rejects.
 * @template {{ close(): Promise<void> }} T
 * @param {T} group @param {(group: T) => Promise<unknown>} start @returns {Promise<T>}
 */
export async function startGroup(group, start) {
  try {
    await start(group);
    return group;
  } catch (error) {
    await group.close();
    throw error;
  }
}

/** The server at an index. @template T @param {readonly T[]} all @param {number} index @param {string} what each is @returns {T} */
export function memberAt(all, index, what) {
  const member = all[index];
  if (member === undefined) throw new Error(`there is no ${what} ${index}`);
  return member;
}
