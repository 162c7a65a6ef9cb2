import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const file = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const { exports: entryPoints } = JSON.parse(readFileSync(file('package.json'), 'utf8')) as {
  exports: Record<string, string | { default: string }>;
};

/** Resolves every entry point of the package to its source instead of to what was built. */
export const alias: { find: RegExp; replacement: string }[] = Object.entries(entryPoints).flatMap(([path, target]) => {
  if (typeof target === 'string') return [];
  const source = target.default.replace('./dist/', 'src/').replace(/\.js$/, '.ts');
  return [{ find: new RegExp(`^evenkeel${path.slice(1)}$`), replacement: file(source) }];
});

/** What `expect.poll` awaits is a state, as with `until`. Vitest's own limit is a second. */
export const patient: { expect: { poll: { timeout: number } } } = { expect: { poll: { timeout: 120_000 } } };

const project = (name: string, include: string[], more: Record<string, unknown> = {}): object => ({
  resolve: { alias },
  test: { name, include, ...patient, ...more },
});

/**
 * Its tests import what was built, as applications and the programs they start do. Loading the sources in each file takes longer
 * than most tests.
 */
const built = (name: string, include: string[], more: Record<string, unknown>): object => ({
  test: {
    name,
    include,
    globalSetup: ['test/support/programs/built.mjs'],
    server: { deps: { external: [/\/dist\//] } },
    ...patient,
    ...more,
  },
});

/** Vitest's own default is one fewer, which on two processors leaves one idle. */
const cores = availableParallelism();
/**
 * No file of these leaves anything behind: no global, no listener, no timer. So a worker need not begin anew for each, and
 * loads the sources once.
 */
const pure = { maxWorkers: cores, isolate: false };

/** On a busy machine a time-out of a client library, or of the system, can pass while a test waits. What passes at its second try is named. */
const realServers = { retry: 1 };

/**
 * Each file starts processes of its own and waits for them about half of its time. There are ports for eight
 * (test/support/programs/free-port.mjs). A worker loads the package once, and its pods serve one file after the other.
 */
const waiting = {
  maxWorkers: Math.min(2 * cores, 8),
  isolate: false,
  sequence: { groupOrder: 1 },
  ...realServers,
};

/** Those that need a process of their own: a cluster under load in each, which they judge, or what grpc-js reads when it is loaded. */
const alone = [
  'test/integration/playground/once.test.ts',
  'test/integration/playground/page.test.ts',
  'test/integration/grpc-js/dns-comparison.test.ts',
];

// Timeouts of tests guard against hanging, for machines several times as slow as a quiet one; they say nothing about speed.
const config: ReturnType<typeof defineConfig> = defineConfig({
  test: {
    projects: [
      project('unit', ['test/unit/**/*.test.{ts,mjs}', 'test/fuzz/**/*.test.ts'], { ...pure, testTimeout: 300_000 }),
      project('contract', ['test/contract/**/*.test.ts'], { ...pure, testTimeout: 300_000 }),
      project('simulation', ['test/simulation/**/*.test.ts'], { ...pure, testTimeout: 600_000 }),
      built('integration', ['test/integration/**/*.test.ts'], {
        exclude: ['test/integration/package/**', ...alone],
        ...waiting,
        testTimeout: 300_000,
        hookTimeout: 300_000,
      }),
      project('playground', alone, {
        // One at a time.
        fileParallelism: false,
        ...realServers,
        sequence: { groupOrder: 2 },
        testTimeout: 300_000,
        hookTimeout: 300_000,
      }),
      project('package', ['test/integration/package/**/*.test.ts', 'test/types/**/*.test.ts'], {
        globalSetup: ['test/integration/package/pack.ts'],
        ...waiting,
        testTimeout: 300_000,
        hookTimeout: 300_000,
      }),
    ],
  },
});

export default config;
