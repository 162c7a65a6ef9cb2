/** How many of each name there are. */
export function tally(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** The largest count against the mean over `pods` pods. */
export function maxToMean(names: readonly string[], pods: number): number {
  return Math.max(...tally(names).values()) / (names.length / pods);
}
