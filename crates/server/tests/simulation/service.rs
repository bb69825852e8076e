//! The real service, each of whose steps takes some simulated time, in which other workers and connections may run.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use leafseal_engine::pool::{Cancellation, is_inline};
use leafseal_engine::{Caller, RequestAccount, RequestOrigin};
use leafseal_protocol::{ErrorObject, Message, Peek};
use leafseal_service::{
    EngineService, PartStep, PeerIdentity, PlannedRequest, RefusedCaller, RequestPart, RequestStage, RequestStep,
    RequestWork, Service, Tenant, WrittenOutput,
};

use crate::network::Opener;
use crate::shares::Flow;
use crate::watch::{self, Number};
use crate::world::World;

pub(crate) struct Watched {
    pub service: EngineService,
    pub world: Weak<World>,
}

/// A caller on one connection.
pub(crate) struct SimulatedCaller {
    pub connection: u64,
    pub opener: Opener,
    pub caller: Arc<Caller>,
}

impl Service for Watched {
    type Caller = SimulatedCaller;

    fn authenticate(&self, _: &PeerIdentity, _: RequestOrigin) -> Result<Arc<SimulatedCaller>, RefusedCaller> {
        unreachable!("who connects is known already")
    }

    fn tenant<'a>(&self, caller: &'a SimulatedCaller, app: Option<&'a str>) -> Tenant<'a> {
        self.service.tenant(&caller.caller, app)
    }

    fn request(
        &self,
        caller: &Arc<SimulatedCaller>,
        frame: Vec<u8>,
        id: u32,
        arrived: Instant,
        cancellation: Arc<Cancellation>,
        account: Option<Arc<RequestAccount>>,
    ) -> RequestStage {
        let world = self.world.upgrade().expect("the world outlives its server");
        let call = match caller.opener {
            Opener::Client(_) => world.journal.call_of(&frame),
            Opener::Eavesdropper => None,
        };
        let flow = Flow { app: app_of(&frame), connection: caller.connection };
        let number = world.watch.begin(flow, id, call, Arc::clone(&cancellation));
        let request = self.service.request(&caller.caller, frame, id, arrived, cancellation, account);
        RequestStage::working(WatchedRequest { request, world, number })
    }
}

fn app_of(frame: &[u8]) -> String {
    let Ok(Message::Request { params, .. }) = Message::parse(frame) else { panic!("a request") };
    Peek::at(params).app.expect("each has one").to_owned()
}

struct WatchedRequest {
    request: RequestStage,
    world: Arc<World>,
    number: Number,
}

impl RequestWork for WatchedRequest {
    fn counted_work(&self) -> Option<Duration> {
        self.request.counted_work()
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        // On the network's thread it takes no time in which others may run.
        if !is_inline() {
            self.world.step(self.number, watch::Step::Work);
        }
        self.request.step(out)
    }

    fn next_part(&mut self) -> Result<PlannedRequest, ErrorObject> {
        self.world.step(self.number, watch::Step::Plan);
        let watched = |part| {
            self.world.watch.begin_part();
            let world = Arc::clone(&self.world);
            Box::new(WatchedPart { part, world, number: self.number }) as Box<dyn RequestPart>
        };
        Ok(match self.request.work().next_part()? {
            PlannedRequest::Part(part) => PlannedRequest::Part(watched(part)),
            PlannedRequest::Last(part) => PlannedRequest::Last(watched(part)),
            other => other,
        })
    }

    fn finish(&mut self, head: &mut Vec<u8>, written: WrittenOutput, tail: &mut Vec<u8>) {
        self.request.work().finish(head, written, tail);
    }

    fn too_large(&self) -> ErrorObject {
        self.request.too_large()
    }

    fn fields(&self) -> u64 {
        self.request.fields()
    }
}

impl Drop for WatchedRequest {
    fn drop(&mut self) {
        self.world.watch.end(self.number);
    }
}

struct WatchedPart {
    part: Box<dyn RequestPart>,
    world: Arc<World>,
    number: Number,
}

impl RequestPart for WatchedPart {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject> {
        self.world.step(self.number, watch::Step::Work);
        self.part.step(out)
    }

    fn fields(&self) -> u64 {
        self.part.fields()
    }
}

impl Drop for WatchedPart {
    fn drop(&mut self) {
        self.world.watch.end_part();
    }
}
