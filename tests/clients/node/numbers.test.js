// Metrics, logs and usage through the npm client `resend`. Started by ../run, which sets RESEND_BASE_URL and
// RESEND_API_KEY.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);

test('mail is counted, in all and by period, domain and mail', async () => {
  const from = 'Acme <hello@numbers.example>';
  const { id } = ok(await resend.emails.send({ from, to: 'delivered@resend.dev', subject: 'Hello', text: 'x' }));
  let totals;
  for (let tries = 0; tries < 100 && !(totals?.delivered > 0); tries += 1) {
    await new Promise((done) => setTimeout(done, 100));
    ({ totals } = ok(await resend.emails.metrics({ emailId: [id] })));
  }
  assert.deepEqual([totals.sent, totals.delivered, totals.delivery_rate, totals.bounced], [1, 1, 1, 0]);
  const options = { dimensions: ['period', 'domain'], granularity: 'hourly', timezone: 'Europe/Berlin' };
  const answer = ok(await resend.emails.metrics({ ...options, metrics: ['sent', 'delivered'] }));
  assert.deepEqual([answer.object, answer.granularity], ['metrics', 'hourly']);
  assert.deepEqual([answer.dimensions, answer.metrics], [['period', 'domain'], ['sent', 'delivered']]);
  const row = answer.data.find(({ domain_name }) => domain_name === 'numbers.example');
  assert.ok(row.sent >= 1 && TIME.test(row.period));
  const whole = ok(await resend.emails.metrics());
  assert.equal(whole.metrics.length, 22);
  assert.equal(whole.data, undefined);
  refused(await resend.emails.metrics({ metrics: ['loved'] }), 422, 'invalid_parameter');
});

test('requests are logged', async () => {
  const { id } = ok(await resend.segments.create({ name: 'logged' }));
  let found;
  for (let tries = 0; tries < 100 && !found; tries += 1) {
    await new Promise((done) => setTimeout(done, 100));
    for (const log of ok(await resend.logs.list({ limit: 20 })).data) {
      const whole = log.endpoint === '/segments' ? ok(await resend.logs.get(log.id)) : {};
      found ??= whole.response_body?.id === id ? whole : undefined;
    }
  }
  assert.deepEqual([found.object, found.method, found.response_status], ['log', 'POST', 201]);
  assert.deepEqual(found.request_body, { name: 'logged' });
  assert.match(found.user_agent, /^resend-node/);
  assert.match(found.id, UUID);
  refused(await resend.logs.get(id), 404, 'not_found');
});

test('usage is told', async () => {
  const usage = ok(await resend.usage.get());
  assert.equal(usage.object, 'usage');
  assert.ok(usage.emails.monthly.sent >= usage.emails.daily.sent && usage.segments.used >= 1);
  assert.equal(typeof usage.rate_limit.limit, 'number');
});
