import { describe, expect, it } from 'vitest';
import { placeOptionNames, rebalanceDefaults, socketPlacerOptionNames } from '../../../src/adapter/kit/index.js';
import { LEAVE_CODE } from '../../../src/adapter/ws/options.js';
import { sectionOf, tableRows, textOf } from '../../support/docs-page.js';

const section = sectionOf(textOf('docs/guide/tcp.md'), 'Options');
const [ofConnector = '', ofConnect = ''] = section.split('`connect()` takes:');
const rows = (text: string): [name: string, byDefault: string][] =>
  tableRows(text)
    .filter(([first = '']) => first.includes('`'))
    .map(([name = '', byDefault = '']) => [name.replaceAll('`', '').trim(), byDefault.trim()]);

describe('docs/guide/tcp.md', () => {
  it('has every option and its default', () => {
    const found = new Map(rows(ofConnector));
    const rebalance = Object.keys(rebalanceDefaults).map((name) => `rebalance.${name}`);
    expect([...found.keys()].sort()).toEqual([...socketPlacerOptionNames, 'finish', ...rebalance].sort());
    for (const [name, value] of Object.entries(rebalanceDefaults)) {
      expect(found.get(`rebalance.${name}`)).toBe(String(value));
    }
  });

  it('docs/guide/websocket.md adds its own', () => {
    const own = rows(sectionOf(textOf('docs/guide/websocket.md'), 'Options'));
    expect(own).toEqual([['leaveCode', String(LEAVE_CODE)]]);
  });

  it('has every option of a connection', () => {
    expect(
      rows(ofConnect)
        .map(([name]) => name)
        .sort(),
    ).toEqual([...placeOptionNames].sort());
  });
});
