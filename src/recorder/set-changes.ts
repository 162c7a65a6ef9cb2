import { type Members, type SetChange, unreadable } from './format.js';
import { list, number, whole } from './read-dump.js';

/** The difference between two sets of members; undefined if they are equal. */
export function changeOf(before: Members, next: Members): SetChange | undefined {
  const shorter = Math.min(before.length, next.length);
  let front = 0;
  while (front < shorter && before[front]?.[0] === next[front]?.[0]) front++;
  let back = 0;
  while (back < shorter - front && before.at(-1 - back)?.[0] === next.at(-1 - back)?.[0]) back++;
  const isSameOrder = front === before.length && front === next.length;
  const memberOf = new Map(before.map((member) => [member[0], member]));
  const changed = next.filter(([id, weight, suspect]) => {
    const old = memberOf.get(id);
    return old === undefined || old[1] !== weight || old[2] !== suspect;
  });
  if (isSameOrder && changed.length === 0) return undefined;
  const between = next.slice(front, next.length - back).map(([id]) => id);
  return isSameOrder ? { changed } : { order: [front, back, between], changed };
}

/**
 * Applies a change, as read from a file, to the members of a set. Throws EVENKEEL_RECORDING if the change is malformed or belongs to
 * another set.
 */
export function changedBy(change: { readonly order?: unknown; readonly changed: unknown }, before: Members): Members {
  let ids = before.map(([id]) => id);
  if (change.order !== undefined) {
    const [front, back, between] = list(change.order, 'order');
    const [kept, last] = [whole(front, 'order'), whole(back, 'order')];
    if (kept + last > ids.length) throw unreadable('a set follows another than the one before it');
    const inserted = list(between, 'order').map((id) => whole(id, 'order'));
    ids = [...ids.slice(0, kept), ...inserted, ...ids.slice(ids.length - last)];
  }
  const memberOf = new Map(before.map((member) => [member[0], member]));
  for (const each of list(change.changed, 'changed')) {
    const [id, weight, suspect] = list(each, 'changed');
    const member = [whole(id, 'changed'), number(weight, 'weight'), suspect === 1 ? 1 : 0] as const;
    memberOf.set(member[0], member);
  }
  return ids.map((id) => memberOf.get(id) ?? [id, 0, 0]);
}
