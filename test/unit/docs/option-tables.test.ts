import { expect, it } from 'vitest';
import { balancerTable } from '../../../src/balancer/balancer-options.js';
import { peakEwmaTable } from '../../../src/load/peak-ewma.js';
import { reportedTable } from '../../../src/load/reported.js';
import { hashTable } from '../../../src/picker/hash.js';
import { hotColdTable } from '../../../src/picker/hot-cold.js';
import { p2cTable } from '../../../src/picker/p2c.js';
import { prefixKeyTable, promptKeyTable } from '../../../src/picker/request-key.js';
import { weightedRoundRobinTable } from '../../../src/picker/weighted-round-robin.js';
import { poolTable } from '../../../src/pool/pool-options.js';
import { retryBudgetTable } from '../../../src/retry/budget.js';
import { retryTable } from '../../../src/retry/retry-options.js';
import { activeHealthTable } from '../../../src/stage/active-health.js';
import { outlierEjectionTable } from '../../../src/stage/outlier-ejection.js';
import { pushbackTable } from '../../../src/stage/pushback.js';
import { slowStartTable } from '../../../src/stage/slow-start.js';
import { placeTable, subsetTable } from '../../../src/stage/subset.js';
import { zoneTable } from '../../../src/stage/zone.js';
import { topologyHintsTable } from '../../../src/stage/zone-hints.js';
import { textOf } from '../../support/docs-page.js';
import { type OptionGroup, withOptionTables, wrongDefaults } from '../../support/option-tables.js';

/** By the name of the interface that documents them. */
const groups: Readonly<Record<string, OptionGroup>> = {
  BalancerOptions: { file: 'balancer/balancer-options', table: balancerTable },
  BalancingOptions: { file: 'balancer/balancer-options', table: balancerTable },
  PoolOptions: { file: 'pool/pool-options', table: poolTable, prefix: 'pool.' },
  RetryOptions: { file: 'retry/retry-options', table: retryTable, prefix: 'retry.' },
  RetryBudgetOptions: { file: 'retry/budget', table: retryBudgetTable, prefix: 'retry.budget.' },
  TopologyHintsOptions: { file: 'stage/zone-hints', table: topologyHintsTable },
  SubsetOptions: { file: 'stage/subset', table: subsetTable },
  SubsetPlace: { file: 'stage/subset', table: placeTable, prefix: 'client.' },
  ActiveHealthOptions: { file: 'stage/active-health', table: activeHealthTable },
  OutlierEjectionOptions: { file: 'stage/outlier-ejection', table: outlierEjectionTable },
  ZoneOptions: { file: 'stage/zone', table: zoneTable },
  SlowStartOptions: { file: 'stage/slow-start', table: slowStartTable },
  PushbackOptions: { file: 'stage/pushback', table: pushbackTable },
  P2cOptions: { file: 'picker/p2c', table: p2cTable },
  WeightedRoundRobinOptions: { file: 'picker/weighted-round-robin', table: weightedRoundRobinTable },
  HotColdOptions: { file: 'picker/hot-cold', table: hotColdTable },
  HashOptions: { file: 'picker/hash', table: hashTable },
  PromptKeyOptions: { file: 'picker/request-key', table: promptKeyTable },
  PrefixKeyOptions: { file: 'picker/request-key', table: prefixKeyTable },
  PeakEwmaOptions: { file: 'load/peak-ewma', table: peakEwmaTable },
  ReportedOptions: { file: 'load/reported', table: reportedTable },
};

const pages = ['reference/options', 'reference/stages', 'reference/pickers', 'reference/loads'];

// `npm run docs:options` writes what stands between the markers `<!-- options: … -->` and `<!-- end of options -->`.
it.each(pages)('the tables of docs/%s.md are those of the source', async (page) => {
  const path = `docs/${page}.md`;
  await expect(withOptionTables(path, groups)).toMatchFileSnapshot(`../../../${path}`);
});

it.each(Object.entries(groups))('%s documents the defaults it has', (name, group) => {
  expect(wrongDefaults(name, group)).toEqual([]);
});

it('every group is on a page', () => {
  const named = pages.flatMap((page) =>
    [...textOf(`docs/${page}.md`).matchAll(/<!-- options: (.+) -->/g)].flatMap(([, names]) =>
      (names as string).split(', '),
    ),
  );
  expect(named.sort()).toEqual(Object.keys(groups).sort());
});
