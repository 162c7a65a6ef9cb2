import { expect, it } from 'vitest';
import { sectionOf, textOf } from '../../support/docs-page.js';

const readme = textOf('README.md');

it('the README quotes the figures of the fleet benchmark page', () => {
  const steady = sectionOf(textOf('docs/benchmarks-fleet.md'), 'Steady calls');
  const row = (name: string): string[] => {
    const line = steady.split('\n').find((each) => each.startsWith(`| ${name} `));
    return (line ?? '').split('|').map((cell) => cell.trim());
  };
  const p99 = 3;
  const ratio = 6;
  const stock = row('fetch of undici through kube-proxy');
  const plain = row('evenkeel');
  const reported = row('evenkeel, servers report their load');
  expect(readme).toContain(
    `**${plain[ratio]} of that of \`fetch\` through kube-proxy**, and ${reported[ratio]?.split(' ')[0]} where servers`,
  );
  expect(readme).toContain(
    `through kube-proxy ${stock[p99]} ms, evenkeel ${plain[p99]} ms, with load reports ${reported[p99]} ms`,
  );
});

it('the README shows the fleet first, then the behavior of Node 26', () => {
  const places = [
    'Requests wait less',
    'An upgrade to Node 26',
    '## Install',
    '## Use it',
    '## Choose by what you have',
  ].map((text) => readme.indexOf(text));
  expect(places).not.toContain(-1);
  expect([...places].sort((a, b) => a - b)).toEqual(places);
});
