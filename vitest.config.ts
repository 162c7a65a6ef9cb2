import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const source = (path: string): string => fileURLToPath(new URL(`src/${path}`, import.meta.url));

const alias = [
  { find: /^evenkeel$/, replacement: source('index.ts') },
  { find: /^evenkeel\/kubernetes$/, replacement: source('resolver/kubernetes/index.ts') },
  { find: /^evenkeel\/undici$/, replacement: source('adapter/undici/index.ts') },
  { find: /^evenkeel\/grpc-js$/, replacement: source('adapter/grpc-js/index.ts') },
  { find: /^evenkeel\/testing$/, replacement: source('testing/index.ts') },
];

const project = (name: string, include: string[], more: Record<string, unknown> = {}): object => ({
  resolve: { alias },
  test: { name, include, ...more },
});

const config: ReturnType<typeof defineConfig> = defineConfig({
  test: {
    projects: [
      project('unit', ['test/unit/**/*.test.{ts,mjs}']),
      project('contract', ['test/contract/**/*.test.ts']),
      project('simulation', ['test/simulation/**/*.test.ts'], { testTimeout: 60_000 }),
      project('integration', ['test/integration/**/*.test.ts'], {
        exclude: ['test/integration/package/**'],
        testTimeout: 60_000,
        hookTimeout: 60_000,
      }),
      project('package', ['test/integration/package/**/*.test.ts', 'test/types/**/*.test.ts'], {
        globalSetup: ['test/integration/package/pack.ts'],
        testTimeout: 120_000,
        hookTimeout: 120_000,
      }),
    ],
  },
});

export default config;
