// A Nest app that asks the Service with its HttpModule or its gRPC client: `node nest.mjs http|grpc`. Decorators are called by hand.
import 'reflect-metadata';
import { HttpModule, HttpService } from '@nestjs/axios';
import { Controller, Get, Inject, Module, Param } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClientsModule, Transport } from '@nestjs/microservices';
import { firstValueFrom } from 'rxjs';

const { ORDERS, ORDERS_GRPC, PORT } = process.env;

class HttpOrders {
  constructor(http) {
    this.http = http;
  }
  async get(id) {
    return (await firstValueFrom(this.http.get(`${ORDERS}/orders/${id}`))).data;
  }
}
Inject(HttpService)(HttpOrders, undefined, 0);

class GrpcOrders {
  constructor(client) {
    this.orders = client.getService('Orders');
  }
  get(id) {
    return firstValueFrom(this.orders.Get({ id }));
  }
}
Inject('ORDERS')(GrpcOrders, undefined, 0);

for (const Orders of [HttpOrders, GrpcOrders]) {
  Controller()(Orders);
  Get(':id')(Orders.prototype, 'get', Object.getOwnPropertyDescriptor(Orders.prototype, 'get'));
  Param('id')(Orders.prototype, 'get', 0);
}

const kinds = {
  http: { imports: [HttpModule], controllers: [HttpOrders] },
  grpc: {
    imports: [
      ClientsModule.register([
        {
          name: 'ORDERS',
          transport: Transport.GRPC,
          options: { package: 'shop', protoPath: 'orders.proto', url: ORDERS_GRPC },
        },
      ]),
    ],
    controllers: [GrpcOrders],
  },
};
class App {}
Module(kinds[process.argv[2]])(App);
const app = await NestFactory.create(App, { logger: ['error'] });
await app.listen(Number(PORT), '127.0.0.1');
