/** Returns whether an object with these labels is selected. */
export type LabelMatcher = (labels: Readonly<Record<string, string>> | undefined) => boolean;

/**
 * Parses a label selector: `a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b,c)`, `a notin (b,c)`, joined by commas. Returns undefined for text
 * that is none of these. An object without the label matches `!=` and `notin`.
 */
export function parseLabelSelector(text: string): LabelMatcher | undefined {
  const matchers: LabelMatcher[] = [];
  // Commas inside parentheses separate the values of a set, not requirements.
  for (const part of text.match(/(?:\([^)]*\)?|[^,(])+/g) ?? []) {
    if (part.trim() === '') continue;
    const matcher = parseRequirement(part.trim());
    if (matcher === undefined) return undefined;
    matchers.push(matcher);
  }
  return (labels) => matchers.every((matches) => matches(labels));
}

/** The value of an object's own label; inherited properties do not count, because a selector may name any key. */
function labelOf(labels: Readonly<Record<string, string>> | undefined, key: string): string | undefined {
  return labels !== undefined && Object.hasOwn(labels, key) ? labels[key] : undefined;
}

function parseRequirement(text: string): LabelMatcher | undefined {
  const equality = /^([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)$/.exec(text);
  if (equality) {
    const [, key, operator, value] = equality as unknown as [string, string, string, string];
    return operator === '!=' ? (labels) => labelOf(labels, key) !== value : (labels) => labelOf(labels, key) === value;
  }
  const set = /^([\w./-]+)\s+(in|notin)\s+\(([^()]*)\)$/.exec(text);
  if (set) {
    const [, key, operator, list] = set as unknown as [string, string, string, string];
    const values = new Set(list.split(',').map((value) => value.trim()));
    return (labels) => {
      const value = labelOf(labels, key);
      return operator === 'in' ? value !== undefined && values.has(value) : value === undefined || !values.has(value);
    };
  }
  const existence = /^(!?)\s*([\w./-]+)$/.exec(text);
  if (existence) {
    const [, not, key] = existence as unknown as [string, string, string];
    return (labels) => (labelOf(labels, key) === undefined) === (not === '!');
  }
  return undefined;
}
