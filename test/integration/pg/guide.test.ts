import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  application,
  noPostgres,
  type PostgresWorld,
  startPostgres,
  titled,
} from '../../support/databases/postgres.js';
import { buildPackage, guidePrograms, outputOfProgram } from '../../support/programs/programs.js';

// TypeORM is not installed here.
const programs = guidePrograms('postgres').filter(({ source }) => !source.includes("from 'typeorm'"));
const expected: Readonly<Record<string, RegExp>> = {
  '# PostgreSQL: pg': /^70\n$/,
  '# PostgreSQL: pg, with require': /^70\n$/,
  Roles: /^100\n$/,
  'Transactions and other session state': /^$/,
  Retries: /^100\n$/,
  PgBouncer: /^70\n$/,
  'TLS and passwords': /^$/,
  'ORMs and query builders': /^\{ price: 70 \}\n$/,
};
const init = [
  'CREATE TABLE items (id int PRIMARY KEY, price int NOT NULL, stock int NOT NULL)',
  'INSERT INTO items SELECT id, id * 10, 100 FROM generate_series(1, 100) AS id',
  'CREATE TABLE orders (item int NOT NULL, amount int NOT NULL)',
];

it('has the expected programs', () => {
  expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(expected));
});

describe.skipIf(noPostgres)(titled('the guide to PostgreSQL'), () => {
  let world: PostgresWorld;
  beforeAll(async () => {
    await buildPackage();
    world = await startPostgres(2, { init });
  });
  afterAll(() => world?.close());

  it.each(programs)('$heading: the program runs and ends', async ({ heading, source, format }) => {
    const servers = world.endpoints.map(({ address, port }) => `${address}:${port}`).join(',');
    const program = source.replaceAll(/'(postgres|pgbouncer)\.shop:\d+'/g, `'static:${servers}'`);
    const environment = `process.env.PGPASSWORD = ${JSON.stringify(application.password)};`;
    // Imports come first, wherever they stand.
    const stdout = await outputOfProgram({ source: `${environment}\n${program}`, format });
    expect(stdout).toMatch(expected[heading] as RegExp);
  });
});
