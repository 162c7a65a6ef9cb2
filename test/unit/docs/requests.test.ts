import { describe, expect, it } from 'vitest';
import { deadlineError } from '../../../src/adapter/http/request-deadline.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { textOf } from '../../support/docs-page.js';

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
    expect(textOf('docs/reference/errors.md')).toContain(`\n\`\`\`\n${message}\n\`\`\`\n`);
  });
});
