// Webhooks through the npm client `resend`, and its own verifier. Started by ../run, which sets RESEND_BASE_URL
// and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);

/** Somebody who listens: what came, and where. */
const heard = [];
const server = createServer((request, response) => {
  let payload = '';
  request.on('data', (part) => (payload += part));
  request.on('end', () => {
    heard.push({ payload, headers: request.headers });
    response.end('thanks');
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const endpoint = `http://127.0.0.1:${server.address().port}/hook`;
after(() => server.close());

async function until(found) {
  for (let tries = 0; tries < 100; tries += 1) {
    const value = await found();
    if (value) return value;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error('it did not come');
}

const named = ({ headers }, prefix) => ({
  id: headers[`${prefix}-id`],
  timestamp: headers[`${prefix}-timestamp`],
  signature: headers[`${prefix}-signature`],
});

test('a webhook is made, read, listed, changed and removed', async () => {
  const made = ok(await resend.webhooks.create({ endpoint, events: ['email.sent', 'email.bounced'] }));
  assert.equal(made.object, 'webhook');
  assert.match(made.id, UUID);
  assert.match(made.signing_secret, /^whsec_/);
  const read = ok(await resend.webhooks.get(made.id));
  assert.deepEqual([read.object, read.status, read.endpoint], ['webhook', 'enabled', endpoint]);
  assert.deepEqual([read.events, read.signing_secret], [['email.sent', 'email.bounced'], made.signing_secret]);
  assert.match(read.created_at, TIME);
  assert.ok(ok(await resend.webhooks.list()).data.some(({ id }) => id === made.id));
  assert.equal(ok(await resend.webhooks.list({ limit: 1 })).data.length, 1);
  const change = { events: ['contact.created'], status: 'disabled' };
  assert.deepEqual(ok(await resend.webhooks.update(made.id, change)), { object: 'webhook', id: made.id });
  const changed = ok(await resend.webhooks.get(made.id));
  assert.deepEqual([changed.events, changed.status], [['contact.created'], 'disabled']);
  assert.deepEqual(ok(await resend.webhooks.remove(made.id)), { object: 'webhook', id: made.id, deleted: true });
  refused(await resend.webhooks.get(made.id), 404, 'not_found');
  refused(await resend.webhooks.create({ endpoint, events: [] }), 422, 'validation_error');
});

test('an event arrives, is verified, listed, and replayed', async () => {
  const webhook = ok(await resend.webhooks.create({ endpoint, events: ['contact.created'] }));
  const email = `ada+${randomUUID()}@example.com`;
  const contact = ok(await resend.contacts.create({ email }));
  const arrived = () => heard.filter(({ payload }) => payload.includes(email));
  const [delivery] = await until(() => arrived().length > 0 && arrived());
  const { payload } = delivery;
  for (const prefix of ['webhook', 'svix']) {
    const headers = named(delivery, prefix);
    const event = resend.webhooks.verify({ payload, headers, webhookSecret: webhook.signing_secret });
    assert.deepEqual([event.type, event.data.id, event.data.email], ['contact.created', contact.id, email]);
    const changed = payload.replace('ada', 'eve');
    assert.throws(() => resend.webhooks.verify({ payload: changed, headers, webhookSecret: webhook.signing_secret }));
  }
  const webhookId = webhook.id;
  const { data } = ok(await resend.webhooks.events.list({ webhookId, limit: 10 }));
  assert.deepEqual(data.map(({ type }) => type), ['contact.created']);
  const eventId = data[0].id;
  assert.equal(delivery.headers['svix-id'], `msg_${eventId}`);
  const settled = await until(async () => {
    const event = ok(await resend.webhooks.events.get({ webhookId, eventId }));
    return event.status === 'success' && event;
  });
  assert.deepEqual([settled.object, settled.next_attempt_at], ['webhook_event', null]);
  assert.deepEqual(settled.payload, JSON.parse(payload));
  const attempts = ok(await resend.webhooks.events.attempts.list({ webhookId, eventId })).data;
  assert.deepEqual(attempts.map((one) => [one.http_status_code, one.response]), [[200, 'thanks']]);
  const rotated = ok(await resend.webhooks.rotateSigningSecret(webhookId));
  assert.notEqual(rotated.signing_secret, webhook.signing_secret);
  const replayed = ok(await resend.webhooks.events.replay({ webhookId, eventId }));
  assert.deepEqual(replayed, { object: 'webhook_event', id: eventId });
  const [, again] = await until(() => arrived().length > 1 && arrived());
  assert.equal(again.headers['webhook-id'], delivery.headers['webhook-id']);
  for (const webhookSecret of [webhook.signing_secret, rotated.signing_secret]) {
    resend.webhooks.verify({ payload, headers: named(again, 'webhook'), webhookSecret });
  }
  ok(await resend.webhooks.remove(webhookId));
});
