import { readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { connectTable } from '../../../src/adapter/amqp/options.js';
import { grpcTable } from '../../../src/adapter/grpc-js/options.js';
import { appTable } from '../../../src/adapter/http/app-options.js';
import { hedgeTable } from '../../../src/adapter/http/hedging.js';
import { http2Table } from '../../../src/adapter/http2/options.js';
import { propagateTable } from '../../../src/adapter/kit/propagation.js';
import { placeTable, socketPlacerTable } from '../../../src/adapter/kit/socket-placer.js';
import { mysql2ConnectionTable, serviceTable } from '../../../src/adapter/mysql2/options.js';
import { lagTable } from '../../../src/adapter/mysql2/roles.js';
import { agentTable } from '../../../src/adapter/node-http/agent.js';
import { appAgentsTable } from '../../../src/adapter/node-http/app-agents.js';
import { nodeHttpConnectionTable } from '../../../src/adapter/node-http/transport.js';
import { pgTable, serverPoolTable } from '../../../src/adapter/pg/options.js';
import { replicasTable } from '../../../src/adapter/redis/options.js';
import { connectorTable } from '../../../src/adapter/tcp/options.js';
import { appAgentTable } from '../../../src/adapter/undici/app-agent/app-options.js';
import { dispatcherTable, undiciConnectionTable, webSocketTable } from '../../../src/adapter/undici/options.js';
import { webSocketsTable } from '../../../src/adapter/ws/options.js';
import { adminTable } from '../../../src/admin/options.js';
import { balancerTable } from '../../../src/balancer/balancer-options.js';
import { peakEwmaTable } from '../../../src/load/peak-ewma.js';
import { reportedTable } from '../../../src/load/reported.js';
import { hashTable } from '../../../src/picker/hash.js';
import { p2cTable } from '../../../src/picker/p2c.js';
import { prefixKeyTable, promptKeyTable } from '../../../src/picker/request-key.js';
import { weightedRoundRobinTable } from '../../../src/picker/weighted-round-robin.js';
import { placingTable, rebalanceTable } from '../../../src/placement/placing-options.js';
import { poolTable } from '../../../src/pool/pool-options.js';
import { dnsTable } from '../../../src/resolver/dns.js';
import { endpointSlicesTable } from '../../../src/resolver/kubernetes/endpoint-slices.js';
import { targetTable } from '../../../src/resolver/target.js';
import { retryBudgetTable } from '../../../src/retry/budget.js';
import { retryTable } from '../../../src/retry/retry-options.js';
import { backendTable, reportTable } from '../../../src/server/options.js';
import { shutdownTable } from '../../../src/server/shutdown/shutdown.js';
import { activeHealthTable } from '../../../src/stage/active-health.js';
import { outlierEjectionTable } from '../../../src/stage/outlier-ejection.js';
import { pushbackTable } from '../../../src/stage/pushback.js';
import { slowStartTable } from '../../../src/stage/slow-start.js';
import { subsetPlaceTable, subsetTable } from '../../../src/stage/subset.js';
import { zoneTable } from '../../../src/stage/zone.js';
import { topologyHintsTable } from '../../../src/stage/zone-hints.js';
import { textOf } from '../../support/docs-page.js';
import { markersOf, type OptionGroup, withOptionTables, wrongDefaults } from '../../support/option-tables.js';

/** By the name of the interface that documents them. */
const groups: Readonly<Record<string, OptionGroup>> = {
  BalancerOptions: { file: 'balancer/balancer-options', table: balancerTable },
  BalancingOptions: { file: 'balancer/balancer-options', table: balancerTable },
  PoolOptions: { file: 'pool/pool-options', table: poolTable, prefix: 'pool.' },
  RetryOptions: { file: 'retry/retry-options', table: retryTable, prefix: 'retry.' },
  RetryBudgetOptions: { file: 'retry/budget', table: retryBudgetTable, prefix: 'retry.budget.' },
  TopologyHintsOptions: { file: 'stage/zone-hints', table: topologyHintsTable },
  SubsetOptions: { file: 'stage/subset', table: subsetTable },
  SubsetPlace: { file: 'stage/subset', table: subsetPlaceTable, prefix: 'client.' },
  ActiveHealthOptions: { file: 'stage/active-health', table: activeHealthTable },
  OutlierEjectionOptions: { file: 'stage/outlier-ejection', table: outlierEjectionTable },
  ZoneOptions: { file: 'stage/zone', table: zoneTable },
  SlowStartOptions: { file: 'stage/slow-start', table: slowStartTable },
  PushbackOptions: { file: 'stage/pushback', table: pushbackTable },
  P2cOptions: { file: 'picker/p2c', table: p2cTable },
  WeightedRoundRobinOptions: { file: 'picker/weighted-round-robin', table: weightedRoundRobinTable },
  HashOptions: { file: 'picker/hash', table: hashTable },
  PromptKeyOptions: { file: 'picker/request-key', table: promptKeyTable },
  PrefixKeyOptions: { file: 'picker/request-key', table: prefixKeyTable },
  PeakEwmaOptions: { file: 'load/peak-ewma', table: peakEwmaTable },
  ReportedOptions: { file: 'load/reported', table: reportedTable },
  PlacingOptions: { file: 'placement/placing-options', table: placingTable },
  RebalanceOptions: { file: 'placement/placing-options', table: rebalanceTable, prefix: 'rebalance.' },
  SocketPlacerOptions: { file: 'adapter/kit/socket-placer', table: socketPlacerTable },
  PlaceOptions: { file: 'adapter/kit/socket-placer', table: placeTable },
  PropagateOptions: { file: 'adapter/kit/propagation', table: propagateTable },
  ConnectorOptions: { file: 'adapter/tcp/options', table: connectorTable },
  WebSocketsOptions: { file: 'adapter/ws/options', table: webSocketsTable },
  ConnectOptions: { file: 'adapter/amqp/options', table: connectTable },
  GrpcOptions: { file: 'adapter/grpc-js/options', table: grpcTable },
  Http2Options: { file: 'adapter/http2/options', table: http2Table },
  ReplicasOptions: { file: 'adapter/redis/options', table: replicasTable },
  PgPoolOptions: { file: 'adapter/pg/options', table: pgTable },
  ServerPoolOptions: { file: 'adapter/pg/options', table: serverPoolTable },
  StatementOptions: { file: 'adapter/pg/options', table: { options: {} } },
  DnsOptions: { file: 'resolver/dns', table: dnsTable },
  DnsSettings: { file: 'resolver/dns', table: dnsTable },
  EndpointSlicesOptions: { file: 'resolver/kubernetes/endpoint-slices', table: endpointSlicesTable },
  TargetOptions: { file: 'resolver/target', table: targetTable },
  AdminOptions: { file: 'admin/options', table: adminTable },
  Mysql2ConnectionOptions: { file: 'adapter/mysql2/options', table: mysql2ConnectionTable },
  ServiceOptions: { file: 'adapter/mysql2/options', table: serviceTable },
  PoolClusterOptions: { file: 'adapter/mysql2/pool-cluster', table: { options: {} } },
  ReplicaLagOptions: { file: 'adapter/mysql2/roles', table: lagTable },
  MysqlStatementOptions: {
    file: 'adapter/mysql2/statement',
    interface: 'StatementOptions',
    table: { options: {} },
  },
  UndiciConnectionOptions: { file: 'adapter/undici/options', table: undiciConnectionTable },
  CallOptions: { file: 'adapter/undici/options', table: dispatcherTable },
  HedgeOptions: { file: 'adapter/http/hedging', table: hedgeTable, prefix: 'hedge.' },
  DispatcherOptions: { file: 'adapter/undici/options', table: dispatcherTable },
  WebSocketOptions: { file: 'adapter/undici/options', table: webSocketTable, prefix: 'webSocket.' },
  AppOptions: { file: 'adapter/http/app-options', table: appTable },
  AppAgentOptions: { file: 'adapter/undici/app-agent/app-options', table: appAgentTable },
  AppAgentsOptions: { file: 'adapter/node-http/app-agents', table: appAgentsTable },
  NodeHttpConnectionOptions: { file: 'adapter/node-http/transport', table: nodeHttpConnectionTable },
  AgentOptions: { file: 'adapter/node-http/agent', table: agentTable },
  BackendOptions: { file: 'server/options', table: backendTable },
  ReportOptions: { file: 'server/options', table: reportTable, prefix: 'reports.' },
  ShutdownOptions: { file: 'server/shutdown/shutdown', table: shutdownTable },
};

const pages = [
  'reference/options',
  'reference/options-connections',
  'reference/options-discovery',
  'reference/options-grpc',
  'reference/options-http',
  'reference/options-mysql',
  'reference/options-postgres',
  'reference/options-redis',
  'reference/options-server',
  'reference/stages',
  'reference/pickers',
  'reference/loads',
  'reference/targets',
];

// `npm run docs:options` writes what stands between the markers `<!-- options: … -->` and `<!-- end of options -->`.
it.each(pages)('the tables of docs/%s.md are up to date with the source', async (page) => {
  const path = `docs/${page}.md`;
  await expect(withOptionTables(path, groups)).toMatchFileSnapshot(`../../../${path}`);
});

it.each(Object.entries(groups))('%s documents its actual defaults', (name, group) => {
  expect(wrongDefaults(name, group)).toEqual([]);
});

it('every group of options is on a page', () => {
  const named = pages.flatMap((page) => markersOf(`docs/${page}.md`)).filter((name) => !name.includes('.'));
  expect(named.sort()).toEqual(Object.keys(groups).sort());
});

const folder = new URL('../../../docs', import.meta.url);
const guides = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.md'));
const msOf: Readonly<Record<string, number>> = { '': 1, ms: 1, s: 1_000, min: 60_000 };

// `pool.connectTimeoutMs` (2 s), or `maxWaiting` (20,000). A sum, such as `delayMs` + `leaveMs` (12 s), is no default.
const quotedDefault = /(?<!\+ )`([\w.]+)` \(([\d.,]*\d) ?(ms|s|min|)[),;]/g;

it.each(['README.md', 'CHANGELOG.md', ...guides.map((path) => `docs/${path}`)])(
  '%s: the number in parentheses after an option is its default',
  (path) => {
    for (const [quote, option = '', number = '', unit = ''] of textOf(path).matchAll(quotedDefault)) {
      const name = option.split('.').at(-1) ?? '';
      const defaults = Object.values(groups)
        .map(({ table }) => (table.options as Readonly<Record<string, { default?: unknown }>>)[name]?.default)
        .filter((value) => typeof value === 'number');
      const value = Number(number.replaceAll(',', '')) * (msOf[unit] ?? 1);
      if (defaults.length > 0) expect(defaults, quote).toContain(value);
    }
  },
);
