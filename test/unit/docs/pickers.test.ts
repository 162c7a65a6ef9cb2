import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import * as entryPoint from '../../../src/index.js';
import * as pickers from '../../../src/picker/all.js';
import { descriptionOf } from '../../../src/runtime/described.js';
import { stagesOf } from '../../../src/stage/standard-stages.js';
import { addresses, StageFixture } from '../../support/fixtures/stage-fixture.js';

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const reference = ['pickers', 'loads', 'stages'].map((page) => read(`docs/reference/${page}.md`)).join('\n');

describe('docs/reference: pickers.md, loads.md and stages.md', () => {
  it('name every picker, load and stage of the entry point', () => {
    const factories = Object.entries(entryPoint).filter(([, value]) => typeof value === 'function');
    const notPluggedIn = ['fits', 'topologyFromEnv'];
    for (const folder of ['picker', 'load', 'stage']) {
      const lines = [...read('src/index.ts').matchAll(/export \{([^}]*)\} from '\.\/(\w+)\/[^']*'/g)];
      const names = lines
        .filter(([, , module]) => module === folder)
        .flatMap(([, list]) => (list as string).split(',').map((name) => name.trim()))
        .filter((name) => factories.some(([exported]) => exported === name) && !notPluggedIn.includes(name));
      for (const name of names) expect(reference, name).toContain(`\`${name}`);
    }
    for (const name of Object.keys(pickers)) expect(reference, name).toContain(`\`${name}`);
  });

  it('list the stages in the order in which they are used', () => {
    const rows = [...read('docs/reference/stages.md').matchAll(/^\| `(\w+)` \| what|^\| `(\w+)` \|/gm)].map(
      ([, a, b]) => a ?? b,
    );
    const made = {
      conditions: entryPoint.conditions(),
      topologyHints: entryPoint.topologyHints({ zone: 'a' }),
      subset: entryPoint.subset({ client: 'a' }),
      activeHealth: entryPoint.activeHealth({ check: async () => {} }),
      outlierEjection: entryPoint.outlierEjection(),
      zone: entryPoint.zone({ zone: 'a' }),
      slowStart: entryPoint.slowStart(),
      pushback: entryPoint.pushback(),
      panic: entryPoint.panic(),
    };
    const order = stagesOf(Object.values(made).reverse()).map((stage) => descriptionOf(stage)?.name);
    expect(rows.slice(0, order.length)).toEqual(order);
  });
});

describe('docs/guide/outlier-ejection.md', () => {
  /** A row of the table that says up to how many failing pods are left out, by pods of the Service. */
  const row = (name: string): number[] =>
    (read('docs/guide/outlier-ejection.md').match(new RegExp(`^\\| ${name} \\|(.*)\\|$`, 'm'))?.[1] ?? '')
      .split('|')
      .map(Number);
  const most = new Map(row('pods').map((pods, index) => [pods, row('ejected at most')[index] as number]));

  it('has a column for every small Service', () => {
    expect([...most.keys()]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it.each([...most])('has the right number of ejected pods for %s', (n, ejectedAtMost) => {
    for (let failing = 1; failing <= n; failing++) {
      const pods = new StageFixture(stagesOf());
      pods.set(addresses(n));
      for (const address of addresses(failing)) pods.completed(address, entryPoint.outcomes.status, 5);
      const ejected = n - pods.usable.length;
      expect(ejected, `${failing} failing`).toBe(failing <= ejectedAtMost ? failing : 0);
    }
  });
});
