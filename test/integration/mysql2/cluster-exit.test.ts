import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { buildPackage, expectToEnd } from '../../support/programs/programs.js';

const program = fileURLToPath(new URL('../../support/databases/idle-mysql-client.mjs', import.meta.url));

describe.skipIf(noMariadb)(titled('a process with a cluster that it did not end'), () => {
  let world: MariadbWorld;
  beforeAll(async () => {
    // The program runs the package as built: without vitest in its process there is nobody else to keep it alive.
    await buildPackage();
    world = await startMariadbs(2, { tls: createCertificate({ commonName: 'mysql', hosts: ['mysql-read.shop'] }) });
  });
  afterAll(async () => {
    await world?.close();
  });

  it.each([
    ['that asked something', 'plain', ['1', '1', '1', 'done']],
    ['that asked over TLS', 'tls', ['1', '1', '1', 'done']],
    ['that asked nothing', 'none', ['done']],
  ])('ends by itself: one %s', async (_what, how, expected) => {
    await expectToEnd([program, JSON.stringify(application), how], world.endpoints, expected);
  });
});
