import { expect, it } from 'vitest';
import { RECONNECT_SECONDS, RETRY_LOW_MS } from '../../../src/adapter/amqp/options.js';
import { textOf } from '../../support/docs-page.js';

it('docs/guide/amqp.md lists the settings that evenkeel makes for libraries', () => {
  const guide = textOf('docs/guide/amqp.md');
  expect(guide).toContain(`${RECONNECT_SECONDS} s\n(\`reconnectTimeInSeconds\``);
  expect(guide).toContain(`${RETRY_LOW_MS / 1_000} to ${(2 * RETRY_LOW_MS) / 1_000} s (\`retryLow\``);
});
