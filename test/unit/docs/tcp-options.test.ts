import { describe, expect, it } from 'vitest';
import { connectOptionNames, RECONNECT_SECONDS, RETRY_LOW_MS } from '../../../src/adapter/amqp/options.js';
import { placeOptionNames, socketPlacerOptionNames } from '../../../src/adapter/kit/socket-placer.js';
import { LEAVE_CODE } from '../../../src/adapter/ws/options.js';
import { rebalanceDefaults } from '../../../src/placement/placing-options.js';
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

  it('docs/guide/amqp.md adds its own, and says what it sets for libraries', () => {
    const guide = textOf('docs/guide/amqp.md');
    expect(rows(sectionOf(guide, 'Options')).map(([name]) => name)).toEqual([...connectOptionNames]);
    expect(guide).toContain(`${RECONNECT_SECONDS} s\n(\`reconnectTimeInSeconds\``);
    expect(guide).toContain(`${RETRY_LOW_MS / 1_000} to ${(2 * RETRY_LOW_MS) / 1_000} s (\`retryLow\``);
  });

  it('has every option of a connection', () => {
    expect(
      rows(ofConnect)
        .map(([name]) => name)
        .sort(),
    ).toEqual([...placeOptionNames].sort());
  });
});
