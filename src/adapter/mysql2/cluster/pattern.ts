/** Whether a name fits a pattern as mysql2 has them: `*` stands for anything. */
export function matches(pattern: string, name: string): boolean {
  const source = pattern.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replace(/\*+/g, '.*');
  return new RegExp(`^${source}$`).test(name);
}
