import { expect, it } from 'vitest';
import { withSections } from '../../bench/lib/page.mjs';

const page = `# Benchmarks

A head.

## Picks

Measured on Monday.

$1 is a price.

## Slices

Measured on Monday.

20 events.
`;

it('sections that were measured anew replace those with their headings; the others stay as they are', () => {
  expect(
    withSections(page, '# Benchmarks\n\nA new head.', ['## Picks\n\n50 ns, for $1.\n'], 'Measured on Friday.'),
  ).toBe(
    `# Benchmarks

A new head.

## Picks

Measured on Friday.

50 ns, for $1.

## Slices

Measured on Monday.

20 events.
`,
  );
});

it('sections that the page does not have yet come last, all those of one benchmark', () => {
  const text = withSections(
    page,
    'A head.',
    ['## Healthy pods\n\n1 ms\n\n### Detail\n\n2\n\n## Dead pods\n\n3 ms\n'],
    'Friday.',
  );
  expect(text.split('\n').filter((line) => line.startsWith('## '))).toEqual([
    '## Picks',
    '## Slices',
    '## Healthy pods',
    '## Dead pods',
  ]);
  expect(text).toContain('## Dead pods\n\nFriday.\n\n3 ms\n');
});

it('a page that does not exist yet consists of what was measured', () => {
  expect(withSections('', 'A head.', ['## Picks\n\n50 ns\n'], 'Friday.')).toBe(
    'A head.\n\n## Picks\n\nFriday.\n\n50 ns\n',
  );
});
