// Broadcasts through the npm client `resend`. Started by ../run, which sets RESEND_BASE_URL and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);
const message = { from: 'News <news@acme.example>', subject: 'Hello', html: '<p>Hello {{{FIRST_NAME|there}}}</p>' };

// A segment with so many people in it.
async function segment(people) {
  const { id } = ok(await resend.segments.create({ name: 'Readers' }));
  for (let number = 0; number < people; number += 1) {
    ok(await resend.contacts.create({ email: `${randomUUID()}@example.com`, segments: [{ id }] }));
  }
  return id;
}

async function ended(id) {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const found = ok(await resend.broadcasts.get(id));
    if (found.status === 'sent') return found;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`the broadcast ${id} has not ended`);
}

test('a broadcast is created, read, listed, changed, duplicated and removed', async () => {
  const segmentId = await segment(1);
  const { id } = ok(await resend.broadcasts.create({ ...message, segmentId, name: 'First', previewText: 'Look' }));
  assert.match(id, UUID);
  const found = ok(await resend.broadcasts.get(id));
  assert.equal(found.object, 'broadcast');
  assert.deepEqual([found.name, found.status, found.segment_id, found.audience_id], ['First', 'draft', segmentId, segmentId]);
  assert.deepEqual([found.from, found.subject, found.preview_text], [message.from, 'Hello', 'Look']);
  assert.match(found.created_at, TIME);
  assert.deepEqual([found.scheduled_at, found.sent_at, found.reply_to], [null, null, null]);
  assert.equal(ok(await resend.broadcasts.update(id, { name: 'Second', replyTo: ['a@acme.example'] })).id, id);
  const listed = ok(await resend.broadcasts.list());
  assert.equal(listed.data.find((one) => one.id === id).name, 'Second');
  const copy = ok(await resend.broadcasts.duplicate(id));
  assert.equal(copy.object, 'broadcast');
  assert.deepEqual(ok(await resend.broadcasts.remove(copy.id)), { object: 'broadcast', id: copy.id, deleted: true });
  refused(await resend.broadcasts.get(copy.id), 404, 'not_found');
});

test('a broadcast is sent once, and tells who got it', async () => {
  const segmentId = await segment(3);
  const { id } = ok(await resend.broadcasts.create({ ...message, segmentId }));
  assert.equal(ok(await resend.broadcasts.send(id)).id, id);
  const found = await ended(id);
  assert.match(found.sent_at, TIME);
  refused(await resend.broadcasts.send(id), 409, 'validation_error');
  refused(await resend.broadcasts.remove(id), 409, 'validation_error');
  const recipients = ok(await resend.broadcasts.recipients(id, { type: 'delivered' }));
  assert.equal(recipients.data.length, 3);
  for (const one of recipients.data) {
    assert.match(one.contact_id, UUID);
    assert.equal(ok(await resend.emails.get(one.id)).to[0], one.email);
  }
  assert.deepEqual(ok(await resend.broadcasts.recipients(id, { type: 'bounced' })).data, []);
  assert.deepEqual(ok(await resend.broadcasts.clickedLinks(id)).data, []);
});

test('a broadcast is scheduled when it is created, and canceled', async () => {
  const segmentId = await segment(1);
  const { id } = ok(await resend.broadcasts.create({ ...message, segmentId, send: true, scheduledAt: 'in 1 hour' }));
  const found = ok(await resend.broadcasts.get(id));
  assert.equal(found.status, 'scheduled');
  assert.match(found.scheduled_at, TIME);
  assert.deepEqual(ok(await resend.broadcasts.cancel(id)), { object: 'broadcast', id });
  assert.equal(ok(await resend.broadcasts.get(id)).status, 'draft');
});

test('an empty segment and an unknown one are refused', async () => {
  const segmentId = await segment(0);
  const { id } = ok(await resend.broadcasts.create({ ...message, segmentId }));
  refused(await resend.broadcasts.send(id), 422, 'validation_error');
  refused(await resend.broadcasts.create({ ...message, segmentId: randomUUID() }), 404, 'not_found');
});
