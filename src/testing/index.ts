export { FakeClock, settle } from './fake-clock.js';
export { FakeResolver } from './fake-resolver.js';
export { type ConnectBehaviour, type FakeCall, FakeConnection, FakeTransport } from './fake-transport.js';
export { seededRng } from './seeded-rng.js';
export {
  type TestRunner,
  type TransportContract,
  type TransportWorld,
  transportContract,
} from './transport-contract.js';
