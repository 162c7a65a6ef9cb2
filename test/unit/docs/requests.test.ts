import { describe, expect, it } from 'vitest';
import { hedgeDefaults } from '../../../src/adapter/http/hedging.js';
import { deadlineError } from '../../../src/adapter/http/request-deadline.js';
import {
  callOptionNames,
  callRules,
  undiciConnectionOptionNames,
  webSocketDefaults,
  webSocketLimits,
} from '../../../src/adapter/undici/options.js';
import { undiciTransport } from '../../../src/adapter/undici/transport.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { optionRows, sectionOf, textOf } from '../../support/docs-page.js';

const page = (name: string): string => textOf(`docs/reference/${name}.md`);
const source = textOf('src/adapter/undici/options.ts');
const rows = optionRows(sectionOf(page('options-http'), '`createDispatcher` and `createFetch`'));

describe('the options of requests in docs/reference/options-http.md', () => {
  it('are those of the source, with their defaults', () => {
    expect(rows.map(({ name }) => name).filter((name) => !name.includes('.'))).toEqual([
      ...callOptionNames,
      'webSocket',
    ]);
    expect(rows.find(({ name }) => name === 'hedge.max')?.byDefault).toBe(String(hedgeDefaults.max));
    for (const [name, value] of Object.entries(webSocketDefaults)) {
      expect(rows.find((row) => row.name === `webSocket.${name}`)?.byDefault).toBe(String(value));
    }
  });

  it.each(rows.filter(({ range }) => range !== ''))(
    '$name: $byDefault, in the range of the source',
    ({ name, range }) => {
      const takes = (value: number): boolean => {
        const nested = name === 'hedge.max' ? { afterMs: 1, max: value } : { [name.slice('hedge.'.length)]: value };
        try {
          if (name.startsWith('webSocket.')) webSocketLimits({ [name.slice('webSocket.'.length)]: value });
          else callRules(name === 'deadlineMs' ? { deadlineMs: value } : { hedge: nested });
          return true;
        } catch {
          return false;
        }
      };
      const [min = 0, max = 0] = [...range.matchAll(/[\d.]+/g)].map(Number);
      const step = name === 'hedge.afterQuantile' ? 0.0001 : 1;
      expect([min - step, min === 0 ? step : min, max, max + step].map(takes)).toEqual([false, true, true, false]);
    },
  );
});

describe('the options of connections in docs/reference/options-http.md', () => {
  const table = optionRows(sectionOf(page('options-http'), 'Connections of `createDispatcher`'));

  it('are those of the source, in its order, with their defaults', () => {
    expect(table.map(({ name }) => name)).toEqual(undiciConnectionOptionNames);
    for (const { name, byDefault } of table) {
      const [, comment = ''] = new RegExp(`/\\*\\*((?:(?!\\*/)[^])*)\\*/\\s*readonly ${name}\\?`).exec(source) ?? [];
      const number = /@defaultValue (\d+)/.exec(comment)?.[1];
      expect(/^\d+/.exec(byDefault)?.[0], name).toBe(number);
    }
  });

  it.each(table.filter(({ range }) => range !== ''))('$name takes $range', ({ name, range }) => {
    const takes = (value: number): boolean => {
      try {
        undiciTransport({ origin: 'http://orders.shop', [name]: value });
        return true;
      } catch {
        return false;
      }
    };
    const [min, max] = (/\d+/g[Symbol.match](range) ?? []).map(Number) as [number, number];
    expect([min - 1, min, max, max + 1, min + 0.5].map(takes)).toEqual([false, true, true, false, false]);
  });
});

describe('EVENKEEL_DEADLINE in docs/reference/errors.md', () => {
  it('has the message of the source as its example', () => {
    const endpoint = createEndpoint({ address: '10.0.0.1', port: 80 });
    const { message } = deadlineError({
      origin: 'http://orders.shop:8080',
      method: 'GET',
      limitMs: 1_000,
      running: [{ lease: { endpoint, subchannel: { endpoint } } as never, stage: 'sent' }],
      tried: undefined,
    });
    expect(page('errors')).toContain(`\n\`\`\`\n${message}\n\`\`\`\n`);
  });
});
