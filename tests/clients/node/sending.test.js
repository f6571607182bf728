// Events that are sent, and the runs they start, through the npm client `resend`.
// Started by ../run, which sets RESEND_BASE_URL and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);
const unique = (text) => `${text}.${randomUUID()}`;
const address = () => `${randomUUID()}@example.com`;

// An event with its automation, which notes the plan and is done.
async function automation(event, steps) {
  ok(await resend.events.create({ name: event, schema: { plan: 'string', seats: 'number' } }));
  const all = [{ key: 's0', type: 'trigger', config: { eventName: event } }, ...steps];
  const connections = all.slice(1).map((step, at) => ({ from: all[at].key, to: step.key }));
  return ok(await resend.automations.create({ name: 'Sent', status: 'enabled', steps: all, connections })).id;
}

async function ended(id) {
  for (let look = 0; look < 100; look += 1) {
    const runs = ok(await resend.automations.runs.list({ automationId: id })).data;
    if (runs.length > 0 && runs.every((run) => run.status !== 'running')) return runs;
    await sleep(100);
  }
  throw new Error('the run did not end within ten seconds');
}

const note = {
  key: 's1',
  type: 'contact_update',
  config: { firstName: 'Ada', properties: { plan: { var: 'event.plan' } } },
};

test('an event that is sent by address makes a contact and runs its automation', async () => {
  const [event, email] = [unique('sent'), address()];
  const id = await automation(event, [note]);
  const sent = ok(await resend.events.send({ event, email, payload: { plan: 'pro', seats: '5' } }));
  assert.equal(sent.object, 'event');
  assert.equal(sent.event, event);
  assert.match(sent.id, UUID);
  const [run] = await ended(id);
  assert.equal(run.status, 'completed');
  const whole = ok(await resend.automations.runs.get({ automationId: id, runId: run.id }));
  assert.equal(whole.object, 'automation_run');
  assert.deepEqual(whole.steps.map((step) => step.status), ['completed', 'completed']);
  const contact = ok(await resend.contacts.get({ email }));
  assert.equal(contact.first_name, 'Ada');
  assert.equal(contact.properties.plan.value, 'pro');
});

test('an event that is sent by id needs a contact that is there', async () => {
  const [event, email] = [unique('sent'), address()];
  const id = await automation(event, [note]);
  const contactId = ok(await resend.contacts.create({ email })).id;
  assert.equal(ok(await resend.events.send({ event, contactId, payload: {} })).event, event);
  assert.equal((await ended(id)).length, 1);
  refused(await resend.events.send({ event, contactId: randomUUID() }), 404, 'not_found');
});

test('an event that nobody defined is defined by its first use', async () => {
  const event = unique('nobody.knows');
  const first = ok(await resend.events.send({ event, email: address() }));
  assert.deepEqual([first.object, first.event, first.defined], ['event', event, true]);
  assert.equal(ok(await resend.events.send({ event, email: address() })).defined, undefined);
  assert.equal(ok(await resend.events.get(event)).schema, null);
});

test('what cannot be sent is refused with the reason', async () => {
  const event = unique('sent');
  await automation(event, [note]);
  const wrong = await resend.events.send({ event, email: address(), payload: { seats: 'many' } });
  assert.match(refused(wrong, 422, 'validation_error'), /`seats`.*number.*`many`/);
  refused(await resend.events.send({ event }), 422, 'missing_required_field');
  refused(await resend.events.send({ event: 'svc:contact.created', email: address() }), 422, 'validation_error');
});
