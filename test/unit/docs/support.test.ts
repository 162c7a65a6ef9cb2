import { expect, it } from 'vitest';
import { peerRanges } from '../../../src/runtime/peer-version.js';
import { sectionOf, tableRows, textOf } from '../../support/docs-page.js';

const page = textOf('docs/support.md');
const manifest = JSON.parse(textOf('package.json')) as {
  readonly engines: { readonly node: string };
};
const code = (cell = ''): string => cell.replaceAll('`', '').replaceAll('\\', '');

it('docs/support.md lists every peer with its range', () => {
  // An escaped bar belongs to its cell.
  const rows = tableRows(sectionOf(page, 'Client libraries').replaceAll('\\|', '‖'));
  const ranges = Object.fromEntries(rows.map(([name, range]) => [code(name), code(range).replaceAll('‖', '|')]));
  expect(ranges).toEqual(peerRanges);
});

it('docs/support.md names the oldest Node.js and the tested ones', () => {
  const oldest = /(\d+)\.(\d+)/.exec(manifest.engines.node);
  const section = sectionOf(page, 'Node.js');
  expect(section).toContain(`| ${oldest?.[1]}, from ${oldest?.[0]} on |`);
  const nodes = /const nodes = \[([^\]]+)\]/
    .exec(textOf('scripts/matrix.mjs'))?.[1]
    ?.split(',')
    .map((each) => each.trim());
  expect([...section.matchAll(/^\| (\d+)/gm)].map(([, version]) => version)).toEqual(nodes);
});
