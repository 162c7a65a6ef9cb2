import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { textOf } from '../../support/docs-page.js';

const page = textOf('docs/life-of-a-call.md');

describe('docs/life-of-a-call.md', () => {
  it('names files and folders that exist, in src or in a folder of it', () => {
    const named = [...page.matchAll(/`([a-z][\w-]*(?:\/[\w.-]*)*(?:\.ts|\/))`/g)].map(([, path = '']) => path);
    expect(named.length).toBeGreaterThan(5);
    const tried = ['', 'resolver/kubernetes/', 'balancer/'];
    const exists = (path: string) =>
      tried.some((folder) => existsSync(new URL(`../../../src/${folder}${path}`, import.meta.url)));
    expect(named.filter((path) => !exists(path))).toEqual([]);
  });

  it('names three deferrals, and the files with their times agree', () => {
    expect(page.match(/\*\*(First|Second|Third) deferral\*\*/g)).toHaveLength(3);
    const throttle = textOf('src/resolver/kubernetes/slices/published-set.ts');
    expect(throttle).toContain('PACE_MS = 50;');
    expect(throttle).toContain('LINGER_MS = 250;');
  });
});
