import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runProgram } from '../../support/programs/consumer.js';

const file = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const root = file('../../..');
const first = ['--require', file('other-platform.cjs')];

describe.each(['win32', 'darwin'])('on a simulated %s, without the files of Linux', (platform) => {
  const env = { FAKE_PLATFORM: platform };

  it('a client balances, a server reports its load and shuts down, and register changes nothing', async () => {
    const args = [...first, '--require', file('../../../dist/register/register.cjs'), file('platform-program.mjs')];
    const { code, stdout, stderr } = await runProgram(process.execPath, args, root, {
      ...env,
      EVENKEEL_SERVICES: 'carts.shop',
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toEqual({ platform, inCluster: false, body: 'here', reports: true, answer: 200 });
  });

  it('evenkeel doctor gives its report', async () => {
    const args = [...first, file('../../../dist/cli/evenkeel.js'), 'doctor', 'localhost:9'];
    const { stdout, stderr } = await runProgram(process.execPath, args, root, env);
    expect(stderr).toBe('');
    expect(stdout).toContain('localhost');
  });
});
