import { expect, it } from 'vitest';
import { noPostgres, titled } from '../../support/databases/postgres.js';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

it.skipIf(noPostgres)(
  titled(
    'examples/postgres: no read fails while a standby and the primary are killed, and orders go to the promoted one',
  ),
  async () => {
    await buildPackage();
    const stdout = await outputOf(['examples/postgres/demo.js']);
    expect(stdout).toMatch(/an order: +pg-0, 99 left/);
    expect(stdout).toMatch(/a standby was promoted: +pg-1, 9[78] left/);
    expect(stdout).toMatch(/reads that failed: +0/);
  },
  240_000,
);
