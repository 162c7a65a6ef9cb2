import { describe, expect, it } from 'vitest';
import { deadlineError } from '../../../src/adapter/http/deadline-error.js';
import { callOptionNames, callRules } from '../../../src/adapter/undici/call-options.js';
import { hedgeDefaults } from '../../../src/adapter/undici/hedging.js';
import { webSocketDefaults, webSocketLimits } from '../../../src/adapter/undici/web-socket.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { optionRows, sectionOf, textOf } from '../../support/docs-page.js';

const page = (name: string): string => textOf(`docs/reference/${name}.md`);
const rows = optionRows(sectionOf(page('options'), '`createDispatcher` and `createFetch`'));

describe('the options of requests in docs/reference/options.md', () => {
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
