import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { callOptionNames, callRules } from '../../../src/adapter/undici/call-options.js';
import { deadlineError } from '../../../src/adapter/undici/deadline-error.js';
import { hedgeDefaults } from '../../../src/adapter/undici/hedging.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';

const page = (name: string): string =>
  readFileSync(new URL(`../../../docs/reference/${name}.md`, import.meta.url), 'utf8');
const rows = (
  page('options')
    .split(/^## `createDispatcher`/m)[1]
    ?.split(/^## /m)[0] ?? ''
)
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) =>
    line
      .split('|')
      .slice(1, 4)
      .map((cell) => cell.trim().replaceAll('`', '')),
  ) as [name: string, byDefault: string, range: string][];

describe('the options of requests in docs/reference/options.md', () => {
  it('are those of the source, with their defaults', () => {
    expect(rows.map(([name]) => name).filter((name) => !name.includes('.'))).toEqual(callOptionNames);
    expect(rows.find(([name]) => name === 'hedge.max')?.[1]).toBe(String(hedgeDefaults.max));
  });

  it.each(rows.filter(([, , range]) => range !== ''))(
    '%s: %s, in the range of the source',
    (name, _byDefault, range) => {
      const takes = (value: number): boolean => {
        const nested = name === 'hedge.max' ? { afterMs: 1, max: value } : { [name.slice('hedge.'.length)]: value };
        try {
          callRules(name === 'deadlineMs' ? { deadlineMs: value } : { hedge: nested });
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
