import { expect, it } from 'vitest';
import { noRabbitmq, titled } from '../../support/databases/rabbitmq.js';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

it.skipIf(noRabbitmq)(
  titled(
    'examples/amqp: connections leave a broker that is replaced, come back to it, and no confirmed message is lost',
  ),
  async () => {
    await buildPackage();
    const stdout = await outputOf(['examples/amqp/demo.js']);
    expect(stdout).toMatch(/three brokers: +\{ 'rabbit-0': 2, 'rabbit-1': 2, 'rabbit-2': 2 \}/);
    expect(stdout).toMatch(/rabbit-0 terminates: +\{ 'rabbit-1': 3, 'rabbit-2': 3 \}/);
    expect(stdout).toMatch(/it is back: +\{ 'rabbit-0': \d, 'rabbit-1': \d, 'rabbit-2': \d \}/);
    expect(stdout).toMatch(/confirmed, and lost: +0/);
  },
  240_000,
);
