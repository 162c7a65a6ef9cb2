import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const main = fileURLToPath(new URL('../../../examples/three-by-three/main.js', import.meta.url));

test('examples/three-by-three: keep-alive stays on one pod, evenkeel reaches all three in every trial', async () => {
  const output = await new Promise<string>((resolve) => {
    execFile(process.execPath, [main, '50', '100'], (_error, stdout, stderr) => resolve(stdout + stderr));
  });
  // Chance may fail the example's chi-square once in a thousand runs, so its exit code is not asked.
  expect(output).toContain('holds  through the Service every client stayed on one pod in every trial');
  expect(output).toContain('holds  through evenkeel every client reached all 3 pods in 50 of 50 trials');
});
