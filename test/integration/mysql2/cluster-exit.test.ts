import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../../src/testing/api-server-certificate.js';
import { runProgram } from '../../support/consumer.js';
import { refusingEndpoint } from '../../support/hanging-endpoint.js';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/mariadb.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const program = fileURLToPath(new URL('../../support/idle-mysql-client.mjs', import.meta.url));

describe.skipIf(noMariadb)(titled('a process with a cluster it did not end'), () => {
  let world: MariadbWorld;
  beforeAll(async () => {
    // The program runs the package as built: without vitest in its process there is nobody else to keep it alive.
    const built = await runProgram(process.execPath, ['scripts/build.mjs'], root);
    expect(built.code, built.stdout + built.stderr).toBe(0);
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
    // One of the endpoints refuses: reconnecting goes on in the background all the time.
    const ports = [...world.endpoints, await refusingEndpoint()].map(({ port }) => String(port));
    const { code, stdout, stderr } = await runProgram(
      process.execPath,
      [program, JSON.stringify(application), how, ...ports],
      root,
    );
    expect(stderr).toBe('');
    expect(code).toBe(0);
    expect(stdout.trim().split('\n')).toEqual(expected);
  });
});
