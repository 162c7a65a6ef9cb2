import { Metadata } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import {
  authorityOf,
  checkService,
  type GrpcOptions,
  resolveGrpcOptions,
  serviceOf,
} from '../../../../src/adapter/grpc-js/options.js';
import { serviceChannelOptions, serviceTarget } from '../../../../src/adapter/grpc-js/target.js';

describe('options', () => {
  it('have defaults', () => {
    expect(resolveGrpcOptions()).toMatchObject({
      balancing: {},
      connections: { min: 1, max: 1 },
      maxConcurrentStreams: Number.POSITIVE_INFINITY,
      healthService: '',
    });
  });

  it.each([
    [{ connections: 0 }, /^connections must be a whole number from 1 to 100, got 0$/],
    [{ connections: { min: 2 } }, /^connections\.max must be a number/],
    [
      { connections: { min: 3, max: 2 }, maxConcurrentStreams: 100 },
      /^connections\.max must be a whole number from 3 to 100/,
    ],
    [{ connections: { max: 2, most: 3 } }, /no option "most"/],
    [{ maxConcurrentStreams: 1.5 }, /^maxConcurrentStreams must be a whole number of at least 1 or Infinity/],
    [{ key: 'x user' }, /^key must be the name of a metadata entry, or a function, got a string$/],
    [{ healthService: 5 }, /^healthService must be/],
    [{ onBalancer: true }, /^onBalancer must be a function/],
    [{ picker: 'p2c' }, /^picker must be a picker such as p2c\(\), got "p2c"/],
    [{ waitTimeoutMs: -1 }, /^waitTimeoutMs must be/],
    [{ resolver: 'dns:' }, /dns:/],
    [
      { retry: { statuses: [503] } },
      /no option "retry\.statuses".*retryPolicy or hedgingPolicy of 'grpc\.service_config'/,
    ],
    [
      { pikcer: () => {} },
      /no option "pikcer" \(did you mean "picker"\?\); it knows grpc\.\*, grpc-node\.\*, interceptors, .*onBalancer/,
    ],
  ])('%o is refused', (options, message) => {
    expect(() => serviceChannelOptions(options as GrpcOptions)).toThrow(
      expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringMatching(message) }),
    );
  });

  it('of grpc-js are passed on; a proxy is never used', () => {
    const options = serviceChannelOptions({ 'grpc.keepalive_time_ms': 5_000, 'grpc-node.max_session_memory': 10 });
    expect(options).toMatchObject({
      'grpc.keepalive_time_ms': 5_000,
      'grpc-node.max_session_memory': 10,
      'grpc.enable_http_proxy': 0,
    });
    const callInvocationTransformer: NonNullable<GrpcOptions['callInvocationTransformer']> = (call) => call;
    const ofClients = { interceptors: [], callInvocationTransformer };
    expect(serviceChannelOptions(ofClients)).toMatchObject(ofClients);
    // grpc-js prints them when it traces.
    expect(() => JSON.stringify(options)).not.toThrow();
  });

  it('can read a hash key from metadata, whatever its case', () => {
    const { key } = resolveGrpcOptions({ key: 'X-User' });
    const metadata = new Metadata();
    expect(key?.(metadata)).toBeUndefined();
    metadata.set('x-user', 'alice');
    metadata.add('x-user', 'bob');
    expect(key?.(metadata)).toBe('alice');
  });
});

describe('target', () => {
  it('is a string with the scheme of evenkeel', () => {
    expect(serviceTarget('orders.shop:50051')).toMatch(/^evenkeel\d*:orders\.shop:50051$/);
  });

  it.each(['', 'orders shop', 'http://orders', 'orders/v1', undefined])('%j cannot name a Service', (service) => {
    expect(() => serviceTarget(service as string)).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
  });

  it.each([
    ['orders.shop:50051', 'orders.shop:50051'],
    ['dns:///orders.shop:50051', 'orders.shop:50051'],
    ['orders:grpc', 'orders:grpc'],
    ['kubernetes:orders.shop:grpc', 'kubernetes:orders.shop:grpc'],
    ['static:10.0.0.1:80,10.0.0.2:80', 'static:10.0.0.1:80,10.0.0.2:80'],
    ['evenkeel:orders.shop:50051', undefined],
    ['dns://10.0.0.10/orders.shop:50051', undefined],
    ['orders.shop', undefined],
    ['10.0.0.1:50051', undefined],
    ['ipv4:10.0.0.1:50051', undefined],
    ['[fd00::1]:50051', undefined],
    ['unix:/run/orders.sock', undefined],
    ['unix:orders', undefined],
    ['xds:orders', undefined],
    ['xds:///orders.shop:50051', undefined],
  ])('with channelOptions turns a client for %s into one for the Service %s', (address, service) => {
    expect(serviceOf(address)).toBe(service);
  });

  it.each([
    ['orders.shop:50051', 'orders.shop:50051'],
    ['orders.shop', 'orders.shop'],
    ['orders.shop:grpc', 'orders.shop'],
    ['kubernetes:orders.shop:grpc', 'orders.shop'],
    ['kubernetes:orders.shop:50051', 'orders.shop:50051'],
    ['dns:orders.shop.svc.cluster.local:50051', 'orders.shop.svc.cluster.local:50051'],
    ['static:10.0.0.1:80,10.0.0.2:80', '10.0.0.1:80'],
    ['static:[fd00::1]:80', '[fd00::1]:80'],
    ['dns:8080', '8080'],
  ])('%s has the authority %s', (service, authority) => {
    expect(authorityOf(service)).toBe(authority);
  });
});

it.each(['orders.shop:65536', 'dns:orders.shop:99999', 'orders%:80'])(
  'refuses %s, which cannot be an authority, before it opens a connection that could not be used',
  (service) => {
    expect(() => checkService(service)).toThrow(/service must be a Service such as orders\.shop:50051/);
  },
);

it.each(['orders.shop:65535', 'orders.shop:grpc', '[::1]:80', 'orders_shop:1', 'static:[::1]:80,10.0.0.1:81'])(
  'accepts %s',
  (service) => {
    expect(checkService(service)).toBe(service);
  },
);
