// What an app with OpenTelemetry requires first, with the instrumentations of the clients.
const { registerInstrumentations } = require('@opentelemetry/instrumentation');
const { HttpInstrumentation } = require('@opentelemetry/instrumentation-http');
const { UndiciInstrumentation } = require('@opentelemetry/instrumentation-undici');
const { GrpcInstrumentation } = require('@opentelemetry/instrumentation-grpc');

registerInstrumentations({
  instrumentations: [new HttpInstrumentation(), new UndiciInstrumentation(), new GrpcInstrumentation()],
});
