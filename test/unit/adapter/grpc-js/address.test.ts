import { describe, expect, it } from 'vitest';
import { authorityOf, checkService, serviceOf } from '../../../../src/adapter/grpc-js/address.js';
import { serviceTarget } from '../../../../src/adapter/grpc-js/target.js';

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
    // A Service called dns, as in every target.
    ['dns:8080', 'dns:8080'],
    ['orders.shop.svc.cluster.local.:50051', 'orders.shop.svc.cluster.local:50051'],
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
