import { expect, it } from 'vitest';
import { pgOptionNames, pgTable, serverPoolTable } from '../../../src/adapter/pg/options.js';
import { sectionOf, textOf } from '../../support/docs-page.js';

it('docs/reference/options-postgres.md lists every option of pg, which evenkeel passes on', () => {
  const section = sectionOf(textOf('docs/reference/options-postgres.md'), "pg's, unchanged");
  const listed = [...(section.split(' and the environment')[0] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name);
  const inTables = [
    'max',
    'min',
    'idleTimeoutMillis',
    'connectionTimeoutMillis',
    'maxLifetimeSeconds',
    'allowExitOnIdle',
    'log',
  ];
  const tables = [...pgTable.names, ...inTables.filter((name) => name in serverPoolTable.options)];
  expect([...tables, ...listed].sort()).toEqual([...pgOptionNames].sort());
});
