import { Metadata } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { type GrpcOptions, resolveGrpcOptions } from '../../../../src/adapter/grpc-js/options.js';
import { serviceChannelOptions } from '../../../../src/adapter/grpc-js/target.js';

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
