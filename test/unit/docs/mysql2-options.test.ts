import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createPoolCluster } from '../../../src/adapter/mysql2/index.js';
import { mysql2Defaults } from '../../../src/adapter/mysql2/options.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const section =
  /^## `createPoolCluster`\n([\s\S]*?)(?=^## |$(?![\s\S]))/m.exec(read('docs/reference/options-mysql.md'))?.[1] ?? '';
const [own = '', ofStatements = ''] = section.split('evenkeel adds:');
const rows = (text: string): { name: string; byDefault: string; range: string }[] =>
  [...text.matchAll(/^\| `([\w.]+)` \|([^|]*)\|([^|]*)\|/gm)].map(([, name, byDefault, range]) => ({
    name: name as string,
    byDefault: (byDefault as string).trim().replaceAll('`', ''),
    range: (range as string).trim(),
  }));
/** The options an interface of the source declares. */
const declared = (file: string, type: string): string[] => {
  const body = new RegExp(`interface ${type}\\b[^{]*\\{([\\s\\S]*?)\\n\\}`).exec(
    read(`src/adapter/mysql2/${file}.ts`),
  )?.[1];
  return [...(body ?? '').matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, name]) => name as string);
};

describe('docs/reference/options-mysql.md: createPoolCluster', () => {
  it('has every option of our own', () => {
    const source = [
      ...declared('options', 'Mysql2ConnectionOptions'),
      ...declared('cluster/service', 'ServiceOptions'),
      ...declared('cluster/pool-cluster', 'PoolClusterOptions'),
      ...declared('checks/standby', 'ReplicaLagOptions'),
      // mysql2 declares these; what they do is ours.
      ...['enableKeepAlive', 'keepAliveInitialDelay', 'localAddress'],
    ];
    expect(source.length).toBeGreaterThan(20);
    expect(
      rows(own)
        .map(({ name }) => name)
        .sort(),
    ).toEqual(source.sort());
    expect(rows(ofStatements).map(({ name }) => name)).toEqual([
      ...declared('cluster/statement', 'StatementOptions'),
      'timeout',
    ]);
  });

  it('has the defaults of the source', () => {
    for (const [name, value] of Object.entries(mysql2Defaults)) {
      expect(rows(own).find((row) => row.name === name)?.byDefault, name).toBe(String(value));
    }
  });

  it.each(rows(own).filter(({ range }) => range !== ''))('$name takes $range', ({ name, range }) => {
    /** Whether a cluster takes `value`. */
    const takes = (value: unknown): boolean => {
      // A port goes with a host that need not be looked up.
      const where = name === 'port' ? { host: '127.0.0.1' } : { resolver: new FakeResolver() };
      try {
        void createPoolCluster({ ...where, [name]: value }).end();
        return true;
      } catch {
        return false;
      }
    };
    const [min, max] = (/[\d.]+/g[Symbol.match](range) ?? []).map(Number) as [number, number];
    expect(takes(min)).toBe(true);
    expect(takes(min - 0.01)).toBe(false);
    expect(takes(max)).toBe(true);
    expect(takes(max + 1)).toBe(false);
    expect(takes(Number.POSITIVE_INFINITY)).toBe(range.includes('Infinity'));
    expect(takes(min + 0.5)).toBe(!range.includes('whole'));
  });
});
