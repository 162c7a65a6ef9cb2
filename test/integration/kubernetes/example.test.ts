import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Runs a program of this repository to its end. */
function run(...args: readonly string[]): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    child.on('exit', (code) => resolve({ code, output }));
  });
}

describe('examples/kubernetes', () => {
  it('its Role asks for as little as possible', async () => {
    const program =
      "import { exampleGrants } from './examples/kubernetes/role.js'; console.log(JSON.stringify(exampleGrants()))";
    const { output } = await run('--input-type=module', '--eval', program);
    expect(JSON.parse(output)).toEqual([
      { namespace: 'shop', resources: ['endpointslices'], verbs: ['list', 'watch'] },
      { namespace: 'shop', resources: ['services'], verbs: ['get'] },
    ]);
  });

  it('works with exactly the rights of its Role, over TLS', async () => {
    expect((await run('scripts/build.mjs')).code).toBe(0);
    const { code, output } = await run('examples/kubernetes/main.js');
    expect(output).toMatch(/^three pods +orders-1 +\d+ +orders-2 +\d+ +orders-3 +\d+$/m);
    // A pod that was slow on a busy machine may be left out of one of them.
    expect(output).toMatch(/^orders-2 is not ready +(orders-[13] +\d+ *)+$/m);
    expect(output).toContain('0 lists, 1 watch, 1 request for the Service');
    expect(code).toBe(0);
  });
});
